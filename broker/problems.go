package broker

// Problems tells in lines what is not served: groups that are loading, writes that are
// refused for want of space. None: the broker is ready for everything.
func (b *Broker) Problems() []string {
	if err := b.Err(); err != nil {
		return []string{err.Error()}
	}
	if !b.Ready() {
		return []string{"loading"}
	}
	if why := b.store.Refusing(); why != "" {
		return []string{"no space (" + why + "): writes are refused"}
	}
	return nil
}
