# syntax-free on purpose: any Docker engine builds this.
# BUILDER has Go 1.26; COMPAT_BASE has a shell (busybox is enough).
ARG BUILDER=golang:1.26
ARG COMPAT_BASE=busybox:1.37

FROM ${BUILDER} AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=dev
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=${VERSION}" -o /out/kcoord ./cmd/kcoord \
 && mkdir -p /out/data

# For tools that run a shell or Kafka's scripts inside the container, and for compose
# files that were written for another image. It is root, because such tools write
# start scripts to where only root may, and volumes come with any owner.
FROM ${COMPAT_BASE} AS compat
COPY --from=build /out/kcoord /usr/local/bin/kcoord
COPY docker/compat/ /
RUN sh /install-links.sh && rm /install-links.sh
ENV KCOORD_DATA_DIR=/var/lib/kcoord
VOLUME /var/lib/kcoord
EXPOSE 9092
HEALTHCHECK --interval=2s --timeout=3s --start-period=10s CMD ["kcoord", "health"]
CMD ["/etc/kafka/docker/run"]

# The image: one static binary, not root, one folder that it may write.
FROM scratch
COPY --from=build /out/kcoord /kcoord
COPY --from=build --chown=65532:65532 /out/data /var/lib/kcoord
USER 65532:65532
ENV KCOORD_DATA_DIR=/var/lib/kcoord \
    KAFKA_LISTENERS=PLAINTEXT://0.0.0.0:9092 \
    KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS=0
VOLUME /var/lib/kcoord
EXPOSE 9092
HEALTHCHECK --interval=2s --timeout=3s --start-period=10s CMD ["/kcoord", "health"]
ENTRYPOINT ["/kcoord"]
CMD ["serve"]
