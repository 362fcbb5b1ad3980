package processnode

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/kubernetes/third_party/forked/golang/expansion"
)

// invocation is everything a process is started with.
type invocation struct {
	name        string // argv[0], as the container sees it.
	binary      string
	arguments   []string
	environment []string
	directory   string
}

// credentialsPath is where a pod's service account token is mounted.
const credentialsPath = "/var/run/secrets/kubernetes.io/serviceaccount"

// invocation translates what the container is to run into what runs here.
func (c *container) invocation(image string, variables map[string]string) (*invocation, error) {
	paths, err := c.paths(variables)
	if err != nil {
		return nil, err
	}
	command, arguments := expandAll(c.spec.Command, variables), expandAll(c.spec.Args, variables)
	result := &invocation{name: image, binary: image}
	if len(command) > 0 {
		result.name = command[0]
		result.binary = executable(paths.rewrite(command[0]), image, c.spec.Image)
		arguments = append(command[1:], arguments...)
	}
	for _, argument := range arguments {
		result.arguments = append(result.arguments, paths.rewrite(argument))
	}
	if result.directory, err = c.directory(paths, variables); err != nil {
		return nil, err
	}
	result.environment, err = c.surroundings(paths, variables)
	return result, err
}

// executable finds what the first word of a command means. An image holds its
// own binary under a path this machine does not have, so a command that ends in
// the name of the binary or of the image is that binary.
func executable(command, binary, image string) string {
	if base := filepath.Base(command); base == filepath.Base(binary) || base == lastName(image) {
		return binary
	}
	if !strings.Contains(command, "/") {
		if found, err := exec.LookPath(command); err == nil {
			return found
		}
	}
	return command
}

// paths maps the mounts of the container and its termination message.
func (c *container) paths(variables map[string]string) (*rewriter, error) {
	replacements := []replacement{}
	if path := c.spec.TerminationMessagePath; path != "" {
		replacements = append(replacements, replacement{filepath.Clean(path), c.terminationLog()})
	}
	for _, mount := range c.spec.VolumeMounts {
		local, err := c.pod.volumes.path(mount.Name)
		if err != nil {
			return nil, err
		}
		below := mount.SubPath
		if mount.SubPathExpr != "" {
			below = expansion.Expand(mount.SubPathExpr, expansion.MappingFuncFor(variables))
		}
		if below != "" {
			if !filepath.IsLocal(below) {
				return nil, fmt.Errorf("mount %s: subPath %q leaves the volume", mount.Name, below)
			}
			local = filepath.Join(local, below)
			if _, err := os.Lstat(local); os.IsNotExist(err) {
				// As a kubelet does; it may be a folder of an emptyDir.
				if err := os.MkdirAll(local, 0o700); err != nil {
					return nil, err
				}
			}
		}
		replacements = append(replacements, replacement{filepath.Clean(mount.MountPath), local})
	}
	return newRewriter(replacements), nil
}

// directory is the container's workingDir where this machine has it, else the
// pod's folder.
func (c *container) directory(paths *rewriter, variables map[string]string) (string, error) {
	if c.spec.WorkingDir == "" {
		return c.pod.folder, nil
	}
	return paths.rewrite(expansion.Expand(c.spec.WorkingDir, expansion.MappingFuncFor(variables))), nil
}

// surroundings are the variables of the process: a few of this machine, then
// those of the container, which may replace them.
func (c *container) surroundings(paths *rewriter, variables map[string]string) ([]string, error) {
	result := map[string]string{"PATH": os.Getenv("PATH"), "HOME": c.pod.folder, "TMPDIR": filepath.Join(c.folder, "tmp")}
	if local := paths.rewrite("/tmp"); local != "/tmp" {
		result["TMPDIR"] = local
	}
	if err := os.MkdirAll(result["TMPDIR"], 0o700); err != nil {
		return nil, err
	}
	kubeconfig, err := c.kubeconfig(paths)
	if err != nil {
		return nil, err
	}
	if kubeconfig != "" {
		result["KUBECONFIG"] = kubeconfig
	}
	for name, value := range variables {
		result[name] = paths.rewrite(value)
	}
	return flatten(result), nil
}

// kubeconfig writes the configuration with which a client finds the API server
// and the pod's token, which client libraries expect at a path that is not ours
// to make. It is empty for a container without a token.
func (c *container) kubeconfig(paths *rewriter) (string, error) {
	credentials := paths.rewrite(credentialsPath)
	if credentials == credentialsPath {
		return "", nil
	}
	const name = "pod"
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{
		Server: c.pod.agent.server, CertificateAuthority: filepath.Join(credentials, corev1.ServiceAccountRootCAKey),
	}
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{TokenFile: filepath.Join(credentials, corev1.ServiceAccountTokenKey)}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name, Namespace: c.pod.object.Namespace}
	config.CurrentContext = name
	path := filepath.Join(c.folder, "kubeconfig")
	return path, clientcmd.WriteToFile(*config, path)
}
