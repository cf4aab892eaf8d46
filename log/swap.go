package log

func (p *Partition) finishSwap(files *segmentFiles) error { return nil }

func (p *Partition) openPlain(rp recoveryPointRecord, files *segmentFiles) error {
	if err := p.cut(rp, files); err != nil {
		return err
	}
	return p.openSegments(rp, files)
}

// DeleteRecords raises the log start to offset (-1: to the end). If the item is
// not durable already, w is released when it is.
func (p *Partition) DeleteRecords(offset int64, w *Waiter) (low int64, durable bool, err error) {
	return -1, false, ErrPolicy
}
