package broker_test

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/rs/zerolog"

	"github.com/kcoord/kcoord/broker"
	"github.com/kcoord/kcoord/log/vfs"
)

// TestFolderThatCannotBeUsed: a start in a folder that may not be written, or on a
// full disk, ends with one line that names what was tried and why not.
func TestFolderThatCannotBeUsed(t *testing.T) {
	full := vfs.NewMem()
	full.SetCapacity(64 << 10)
	refusing := func(why error) vfs.FS {
		return &vfs.Hooked{FS: vfs.NewMem(), Before: func(op vfs.Op) *vfs.Failure {
			if op.Mutates() {
				return &vfs.Failure{Err: why}
			}
			return nil
		}}
	}
	for name, tt := range map[string]struct {
		fs  vfs.FS
		why error
	}{
		"full":      {full, syscall.ENOSPC},
		"forbidden": {refusing(syscall.EACCES), fs.ErrPermission},
		"read-only": {refusing(syscall.EROFS), syscall.EROFS},
	} {
		t.Run(name, func(t *testing.T) {
			b, err := broker.New(broker.Options{DataDir: "folder", FS: tt.fs})
			if err != nil {
				t.Fatal(err)
			}
			err = b.Start(within(t))
			if !errors.Is(err, tt.why) || !strings.Contains(err.Error(), "folder") || strings.Contains(err.Error(), "\n") {
				t.Errorf("start: %v", err)
			}
			b.Stop(context.Background())
		})
	}
}

// TestSettingsOfANewFolder: what only a new folder takes is warned of later.
func TestSettingsOfANewFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	run := func(properties map[string]string) string {
		var out strings.Builder
		logger := zerolog.New(&out).Level(zerolog.WarnLevel)
		b, err := broker.New(broker.Options{DataDir: dir, Properties: properties, Logger: &logger})
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Start(within(t)); err != nil {
			t.Fatal(err)
		}
		if err := b.Stop(within(t)); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	of := map[string]string{"kcoord.cluster.id": "abcdefghijklmnopqrstuv", "offsets.topic.num.partitions": "2"}
	for range 2 {
		if got := run(of); got != "" {
			t.Errorf("warned of what the folder has:\n%s", got)
		}
	}
	of["kcoord.cluster.id"], of["offsets.topic.num.partitions"] = "0000000000000000000000", "3"
	if got := run(of); strings.Count(got, "\n") != 2 || !strings.Contains(got, `"folder_has":"abcdefghijklmnopqrstuv"`) || !strings.Contains(got, `"folder_has":"2"`) {
		t.Errorf("warnings:\n%s", got)
	}
}
