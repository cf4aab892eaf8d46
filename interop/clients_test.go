package interop

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/kcoord/kcoord/interop/adapter"
	"github.com/kcoord/kcoord/interop/goclients"
)

func TestFranz(t *testing.T) {
	runScenario(t, func(addr, _ string) (adapter.Client, error) { return goclients.NewFranz(addr) })
}

// runProgram takes an adapter program, which gets the broker's address as its
// last argument but for args, through the scenario.
func runProgram(t *testing.T, command []string, args ...string) {
	runScenario(t, func(addr, dir string) (adapter.Client, error) {
		all := append(append(command[1:len(command):len(command)], addr), args...)
		return adapter.Start(exec.Command(command[0], all...), filepath.Join(dir, "adapter.log"))
	})
}

func TestJava(t *testing.T) {
	for _, version := range []string{"4.4.0", "3.9.1", "2.8.2"} {
		t.Run(version, func(t *testing.T) {
			jars := installed(t, "java-"+version)
			runProgram(t, []string{"java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx128m",
				"-cp", filepath.Join(jars, "classes") + ":" + filepath.Join(jars, "*"), "Adapter"})
		})
	}
}

func TestSarama(t *testing.T) {
	runScenario(t, func(addr, _ string) (adapter.Client, error) { return goclients.NewSarama(addr) })
}

func TestKafkaGo(t *testing.T) {
	runScenario(t, func(addr, _ string) (adapter.Client, error) { return goclients.NewKafkaGo(addr) })
}

func TestPython(t *testing.T) {
	for _, library := range []string{"confluent", "kafkapython"} {
		t.Run(library, func(t *testing.T) {
			runProgram(t, []string{installed(t, "python", "bin", "python"), filepath.Join("clients", "python", library+".py")})
		})
	}
}

func TestNode(t *testing.T) {
	for _, library := range []string{"kafkajs", "confluent"} {
		t.Run(library, func(t *testing.T) {
			t.Setenv("NODE_PATH", installed(t, "node", "node_modules"))
			runProgram(t, []string{"node", filepath.Join("clients", "node", library+".js")})
		})
	}
}

func TestRust(t *testing.T) {
	runProgram(t, []string{installed(t, "rust", "release", "adapter")})
}
