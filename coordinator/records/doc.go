// Package records is part of kcoord.
package records
