package masters

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"time"

	"github.com/moby/moby/client"
)

const (
	publicImage = "redis:8-alpine"
	hostImage   = "redlock-redis:host"
	fromHost    = "host" // the value of REDLOCK_REDIS_IMAGE that asks for hostImage
)

// findImage returns the image to run and how it was come by.
func findImage(ctx context.Context, engine client.APIClient) (ref, origin string, err error) {
	switch ref := os.Getenv("REDLOCK_REDIS_IMAGE"); ref {
	case fromHost:
		if err := buildHostImage(ctx, engine); err != nil {
			return "", "", fmt.Errorf("build an image from this machine's redis-server: %w", err)
		}
		return hostImage, "built from this machine's redis-server", nil
	case "":
		pullErr := have(ctx, engine, publicImage)
		if pullErr == nil {
			return publicImage, "the default", nil
		}
		if err := buildHostImage(ctx, engine); err != nil {
			return "", "", fmt.Errorf("no image to run: name one in REDLOCK_REDIS_IMAGE, "+
				"or install redis-server, from which one can be built (%w; %w)", pullErr, err)
		}
		return hostImage, "built from this machine's redis-server, as " + publicImage + " cannot be pulled", nil
	default:
		return ref, "named by REDLOCK_REDIS_IMAGE", have(ctx, engine, ref)
	}
}

// have sees to it that the engine has the image.
func have(ctx context.Context, engine client.APIClient, ref string) error {
	if _, err := engine.ImageInspect(ctx, ref); err == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	progress, err := engine.ImagePull(ctx, ref, client.ImagePullOptions{})
	if err == nil {
		err = errors.Join(progress.Wait(ctx), progress.Close())
	}
	if err != nil {
		return fmt.Errorf("pull %s: %w", ref, err)
	}
	return nil
}

// buildHostImage makes an image of this machine's redis-server and the
// libraries that it needs, some 18 MB: no registry, no Dockerfile, no shell.
func buildHostImage(ctx context.Context, engine client.APIClient) error {
	if runtime.GOOS != "linux" {
		return fmt.Errorf("a binary for %s does not run in a container", runtime.GOOS)
	}
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		return err
	}
	needed, err := closure(ctx, binary)
	if err != nil {
		return err
	}
	var archive bytes.Buffer
	if err := pack(&archive, binary, needed); err != nil {
		return err
	}
	before, beforeErr := engine.ImageInspect(ctx, hostImage)
	result, err := engine.ImageImport(ctx, client.ImageImportSource{Source: &archive, SourceName: "-"}, hostImage,
		client.ImageImportOptions{
			Changes: []string{
				`ENTRYPOINT ["/usr/bin/redis-server"]`, "USER 999:999", "WORKDIR " + dataDir, "EXPOSE " + redisPort.String(),
			},
		})
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, result) // the engine works as long as one reads
	if beforeErr == nil {                // it has no name any more; the engine keeps it where containers of it run
		_, _ = engine.ImageRemove(ctx, before.ID, client.ImageRemoveOptions{})
	}
	return errors.Join(err, result.Close())
}

// libraryPath finds the absolute paths in what ldd prints:
//
//	libm.so.6 => /lib/x86_64-linux-gnu/libm.so.6 (0x00007f…)
//	/lib64/ld-linux-x86-64.so.2 (0x00007f…)
var libraryPath = regexp.MustCompile(`(?m)(/\S+) \(0x[0-9a-f]+\)$`)

// closure returns the shared libraries that a binary needs, and its loader.
func closure(ctx context.Context, binary string) ([]string, error) {
	out, err := exec.CommandContext(ctx, "ldd", binary).Output()
	if err != nil {
		return nil, fmt.Errorf("ldd %s: %w", binary, err)
	}
	var libraries []string
	for _, m := range libraryPath.FindAllSubmatch(out, -1) {
		libraries = append(libraries, string(m[1]))
	}
	return libraries, nil
}

func pack(w io.Writer, binary string, libraries []string) error {
	tw := tar.NewWriter(w)
	add := func(h tar.Header, content []byte) error {
		h.Size = int64(len(content))
		if err := tw.WriteHeader(&h); err != nil {
			return err
		}
		_, err := tw.Write(content)
		return err
	}
	addFile := func(as, file string) error {
		real, err := filepath.EvalSymlinks(file)
		if err != nil {
			return err
		}
		content, err := os.ReadFile(real)
		if err != nil {
			return err
		}
		return add(tar.Header{Name: as[1:], Mode: 0o755, Typeflag: tar.TypeReg}, content)
	}

	err := errors.Join(
		add(tar.Header{Name: "etc/passwd", Mode: 0o644, Typeflag: tar.TypeReg}, []byte("redis:x:999:999::"+dataDir+":\n")),
		add(tar.Header{Name: "tmp/", Mode: 0o1777, Typeflag: tar.TypeDir}, nil),
		add(tar.Header{Name: path.Base(dataDir) + "/", Mode: 0o755, Uid: 999, Gid: 999, Typeflag: tar.TypeDir}, nil),
		addFile("/usr/bin/redis-server", binary),
	)
	for _, lib := range libraries {
		err = errors.Join(err, addFile(lib, lib))
	}
	return errors.Join(err, tw.Close())
}
