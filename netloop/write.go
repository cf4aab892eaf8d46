package netloop

// writeChunk is how much is written at once where progress within a write cannot be
// seen: a peer that takes fewer bytes in Limits.WriteStall counts as stuck.
const writeChunk = 16 << 10

// write sends all of b, however long the peer takes; the reaper closes the connection
// if the peer takes nothing. Only for the holder of mu.writing.
func (st *stream) write(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	st.progress(0)
	st.writeBegan.Store(st.writeSince.Load())
	defer st.written()
	if st.raw == nil {
		return st.writeChunks(b)
	}
	st.pending, st.failed = b, nil
	err := st.raw.Write(st.step)
	st.pending = nil
	if err == nil {
		err = st.failed
	}
	return err
}

func (st *stream) writeChunks(b []byte) error {
	for len(b) > 0 {
		n, err := st.rw.Write(b[:min(len(b), writeChunk)])
		if err != nil {
			return err
		}
		b = b[n:]
		st.progress(n)
	}
	return nil
}

func (st *stream) written() {
	st.writeSince.Store(0)
	st.writeBegan.Store(0)
}

// progress notes that the peer took n bytes, or is about to be given the first.
func (st *stream) progress(n int) {
	st.taken.Add(int64(n))
	now := st.c.server.now()
	st.writeSince.Store(now)
	st.active.Store(now)
}
