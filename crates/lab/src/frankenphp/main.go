// Serves a folder with FrankenPHP's library: PHP's threads in one process, files by Go's net/http.
//
// FrankenPHP's own program adds Caddy around the library. Its module for Caddy is not part of the
// library's module.
package main

import (
	"crypto/tls"
	"flag"
	"log"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/dunglas/frankenphp"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:8080", "address")
	root := flag.String("root", ".", "document root, without links in its path")
	threads := flag.Int("threads", 8, "threads of PHP")
	certificate := flag.String("certificate", "", "PEM file; https if given")
	key := flag.String("key", "", "PEM file")
	flag.Parse()

	if err := frankenphp.Init(frankenphp.WithNumThreads(*threads)); err != nil {
		log.Fatal(err)
	}
	server := &http.Server{
		Addr:    *listen,
		Handler: handler{*root, http.FileServer(http.Dir(*root))},
		// HTTP/2 is spoken over TLS, as by the other stacks.
		TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12},
	}
	if *certificate == "" {
		log.Fatal(server.ListenAndServe())
	}
	log.Fatal(server.ListenAndServeTLS(*certificate, *key))
}

// handler gives scripts to PHP and files to net/http.
type handler struct {
	root  string
	files http.Handler
}

func (h handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name, uri := path.Clean("/"+r.URL.Path), r.URL.RequestURI()
	if strings.HasSuffix(r.URL.Path, "/") {
		index := path.Join(name, "index.php")
		if _, err := os.Stat(filepath.Join(h.root, index)); err == nil {
			r.URL.Path, name = index, index
		}
	}
	if !strings.HasSuffix(name, ".php") {
		h.files.ServeHTTP(w, r)
		return
	}
	request, err := frankenphp.NewRequestWithContext(
		r,
		frankenphp.WithRequestResolvedDocumentRoot(h.root),
		frankenphp.WithRequestEnv(map[string]string{"REQUEST_URI": uri}))
	if err == nil {
		err = frankenphp.ServeHTTP(w, request)
	}
	if err != nil {
		log.Print(err)
		http.Error(w, "PHP did not answer", http.StatusInternalServerError)
	}
}
