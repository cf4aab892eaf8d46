package config

import (
	"regexp"
	"slices"
	"strings"
)

// Environment is what FromEnvironment found.
type Environment struct {
	Settings []Setting
	// Topics is the value of KAFKA_CREATE_TOPICS, or empty:
	// name:partitions:replicas[:cleanup.policy] with commas between several.
	Topics string
	// Warnings are lines about variables that look like properties and are none.
	Warnings []string
}

// ignoredVariables are for the Java machine, the scripts and the images around
// Kafka, and those that Kubernetes sets for a service called kafka.
var ignoredVariables = regexp.MustCompile(`^KAFKA_(` + strings.Join([]string{
	`HOME`, `VERSION`, `SCALA_VERSION`, `DEBUG`, `USER`, `MODE`, `CLASSPATH`, `OPTS`, `EXTRA_FLAGS`, `EXTRA_ARGS`,
	`HEAP_OPTS`, `JVM_PERFORMANCE_OPTS`, `GC_LOG_OPTS`, `JMX_.*`, `LOG4J_.*`, `LOG4J2_.*`, `TOOLS_LOG4J_LOGLEVEL`, `ROOT_LOG_LEVEL`,
	`BASE_DIR`, `CONF_DIR`, `VOLUME_DIR`, `DATA_DIR`, `MOUNTED_CONF_DIR`, `INITSCRIPTS_DIR`, `CERTS_DIR`, `KRAFT_BOOTSTRAP_SCRAM_USERS`,
	`ENABLE_KRAFT`, `SKIP_KRAFT_STORAGE_INIT`, `INITIAL_CONTROLLERS`, `DAEMON_USER`, `DAEMON_GROUP`,
	`REST_.*`, `METRIC_REPORTERS_.*`, `ADVERTISED_HOST_NAME`, `ADVERTISED_PORT`, `CREATE_TOPICS`,
	`SERVICE_HOST`, `SERVICE_PORT(_.*)?`, `PORT(_[0-9]+_TCP.*)?`,
}, `|`) + `)$`)

// variables of other names that stand for a property.
var variables = map[string]string{
	"CLUSTER_ID":             "kcoord.cluster.id",
	"KAFKA_CLUSTER_ID":       "kcoord.cluster.id",
	"KAFKA_KRAFT_CLUSTER_ID": "kcoord.cluster.id",
}

// FromEnvironment reads the variables that stand for properties, each given as
// "NAME=value": KAFKA_ before a property's name in upper case, with '_' for a dot,
// '__' for an underscore and '___' for a dash, as in the images apache/kafka and
// cp-kafka; KAFKA_CFG_ in the place of KAFKA_, as in bitnami's, which wins over it;
// KCOORD_ for kcoord's own properties. A variable without a value counts as not set.
func FromEnvironment(environ []string) Environment {
	var env Environment
	var plain, cfg []Setting
	advertised := map[string]string{}
	for _, entry := range slices.Sorted(slices.Values(environ)) {
		name, value, _ := strings.Cut(entry, "=")
		s := Setting{Value: strings.TrimSpace(value), Source: StaticSource, Origin: name}
		if s.Value == "" {
			continue
		}
		property, known := variables[name]
		rest, isCfg := strings.CutPrefix(name, "KAFKA_CFG_")
		switch {
		case known:
			s.Name = property
			plain = append(plain, s)
			continue
		case isCfg:
		case ignoredVariables.MatchString(name):
			advertised[name] = s.Value
			continue
		case strings.HasPrefix(name, "KAFKA_"):
			rest = name[len("KAFKA_"):]
		case strings.HasPrefix(name, "KCOORD_"):
			rest = name
		default:
			continue
		}
		s.Name = propertyName(rest)
		if _, ok := Find(s.Name); !ok {
			env.Warnings = append(env.Warnings, unknownVariable(s))
			continue
		}
		if isCfg {
			cfg = append(cfg, s)
		} else {
			plain = append(plain, s)
		}
	}
	env.Settings = append(plain, cfg...)
	env.Topics = advertised["KAFKA_CREATE_TOPICS"]
	env.Settings = append(advertisedHost(advertised, env.Settings), env.Settings...)
	return env
}

// advertisedHost understands the two variables of images from before listeners
// had names.
func advertisedHost(env map[string]string, set []Setting) []Setting {
	host := env["KAFKA_ADVERTISED_HOST_NAME"]
	if host == "" || slices.ContainsFunc(set, func(s Setting) bool { return s.Name == "advertised.listeners" }) {
		return nil
	}
	port := env["KAFKA_ADVERTISED_PORT"]
	if port == "" {
		port = "9092"
	}
	return []Setting{{Name: "advertised.listeners", Value: "PLAINTEXT://" + host + ":" + port,
		Source: StaticSource, Origin: "KAFKA_ADVERTISED_HOST_NAME"}}
}

// propertyName turns a variable's name without its prefix into a property's.
func propertyName(variable string) string {
	return strings.NewReplacer("___", "-", "__", "_", "_", ".").Replace(strings.ToLower(variable))
}

// variableName is the variable of a property.
func variableName(property string) string {
	name := strings.ToUpper(strings.NewReplacer("-", "___", "_", "__", ".", "_").Replace(property))
	if strings.HasPrefix(name, "KCOORD_") {
		return name
	}
	return "KAFKA_" + name
}

func unknownVariable(s Setting) string {
	line := s.Origin + "=" + quoted(s.Value) + ": no property " + s.Name + " is known; ignored"
	if near := Nearest(s.Name); near != "" {
		line += " (nearest: " + variableName(near) + ")"
	}
	return line
}
