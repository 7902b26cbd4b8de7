# `make test` and `make demo` do all set-up themselves on a Debian machine with Rust.

.PHONY: help test docs devices cluster demo bench fuzz bundle package image reproducible advisories boot python setup

help:
	@echo 'make test                        everything a change must pass'
	@echo 'make docs                        the book in docs, as HTML; builds mdBook once'
	@echo 'make devices                     that the layers compute the same on graphics processors, where there are any'
	@echo 'make cluster                     that queries are counted the same on a cluster as in the worker'
	@echo 'make demo [DATA=folder] [OPEN=1] [EXIT=1] a consortium with its workers on this machine'
	@echo 'make bench NAME=name             one measurement, a JSON object a line'
	@echo 'make fuzz [SECONDS=60] [NAME=x]  hostile inputs at every door, a JSON object a target'
	@echo 'make bundle                      the part of the dashboard that runs in the browser'
	@echo 'make python                      the Python client, as a wheel; prints its path'
	@echo 'make package                     Debian packages of the worker, the server and the command line'
	@echo 'make image                       OCI images of the worker and the server, from their packages'
	@echo 'make reproducible                builds the packages twice in two folders and compares them; most of an hour'
	@echo 'make advisories                  known vulnerabilities, by the copy of the advisory database in UNDERTONE_ADVISORIES'
	@echo 'make boot                        tries these packages under a systemd of their own; needs root on Debian'
	@echo 'make setup                       what the above install, and nothing else'

test:
	@.ci/test.sh

docs:
	@.ci/docs.sh

devices:
	@.ci/devices.sh

cluster:
	@.ci/cluster.sh

demo:
	@.ci/demo.sh $(if $(DATA),--data '$(DATA)') $(if $(OPEN),--open) $(if $(EXIT),--exit)

bench:
	@.ci/bench.sh '$(NAME)'

fuzz:
	@.ci/fuzz.sh '$(or $(SECONDS),60)' '$(NAME)'

bundle: setup
	@.ci/bundle.sh

python:
	@.ci/python.sh

package: setup
	@.ci/package.sh

image: setup
	@.ci/image.sh

reproducible: setup
	@.ci/reproducible.sh

advisories:
	@.ci/advisories.sh

boot: setup
	@.ci/boot.sh

setup:
	@.ci/setup.sh
