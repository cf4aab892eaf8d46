package broker

// Lock order. A goroutine that holds a lock of this list may take only locks
// below it; none is held across file or network operations.
//
//	1. shard.mu           one coordinator shard: its groups, tokens, timers' heap. Never two shards at a time.
//	2. the store's locks  a partition's, then the journal round's (copying into the open round)
//	3. completion lists   netloop's, one per loop; leaf
//	4. timers.mu          wake-up time of the timer goroutine; leaf
//
// The metadata snapshot is an atomic pointer, loaded after the shard lock is
// taken, never before: else a commit could survive the deletion of its topic.
