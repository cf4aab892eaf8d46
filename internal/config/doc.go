// Package config is part of kcoord.
package config
