package config

import "testing"

// TestDefaults builds the configuration of nothing set: every default is valid.
func TestDefaults(t *testing.T) {
	v := Default().Values()
	if v.OffsetsTopicPartitions != 50 || v.OffsetsRetention.Hours() != 7*24 || v.Durability != "sync" {
		t.Errorf("defaults are %+v", v)
	}
	for _, p := range Properties() {
		if p.Doc == "" || !p.Null && p.Check(p.Default) != "" {
			t.Errorf("%s: no doc or an invalid default", p.Name)
		}
	}
}
