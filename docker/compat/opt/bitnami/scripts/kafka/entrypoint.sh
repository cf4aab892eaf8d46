#!/bin/sh
# The entry point of bitnami's images; there is nothing to prepare.
exec "$@"
