# The image of dra-steward, and with --build-arg PROGRAM=dra-steward-scheduler that of the
# scheduler. It holds one static program, its bill of materials and the licence: no shell, no
# libc, no user that could become another.
#
#   docker build -t registry.example.com/dra-steward:0.1.0 .
ARG GO=1.26
# The digest of the builder's image, with its @. The release workflow fills it in and checks it.
ARG GO_DIGEST=
FROM --platform=$BUILDPLATFORM docker.io/library/golang:${GO}${GO_DIGEST} AS build
ARG TARGETOS=linux
ARG TARGETARCH=amd64
ARG PROGRAM=dra-steward
# What the program reports about itself: the repository is not in the build context.
ARG VERSION=
ARG COMMIT=
ARG SOURCE_DATE_EPOCH=
WORKDIR /src
COPY . .
RUN make image-root PROGRAM=${PROGRAM} GOOS=${TARGETOS} GOARCH=${TARGETARCH} IMAGE_ROOT=/image

FROM scratch
COPY --from=build /image/ /
USER 65532:65532
ENTRYPOINT ["/program"]
