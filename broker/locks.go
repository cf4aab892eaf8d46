package broker

// Lock order. A goroutine that holds a lock of this list may take only locks
// below it; none is held across file or network operations.
//
//	1. releaser.mu        completions sorted by loop; taken by the flusher, which calls wakeUps under it
//	2. topicAdmin.serial, configEditor.serial   changes of topics or properties, from their check until they
//	                      are in the open round; the flusher takes neither. Leaves beside them:
//	                      configEditor.rebuilding, and the mu of both, which the flusher takes for moments
//	3. shard.mu           one coordinator shard: its groups, tokens, timers. Never two shards at a time.
//	4. gathering.mu       the parts of one answer that several shards give
//	5. the store's locks  a partition's, then the journal round's (copying into the open round)
//	6. completion lists   the transport's, one per loop; leaf
//	7. alarms.mu, pool.mu, timekeeper.mu, warnings.mu, rebalances.mu, Broker.mu; leaves
//
// The metadata snapshot is an atomic pointer, loaded after the shard lock is
// taken, never before: else a commit could survive the deletion of its topic.
