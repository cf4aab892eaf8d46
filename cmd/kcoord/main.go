// Command kcoord runs the broker.
package main

func main() {}
