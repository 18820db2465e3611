#pragma once
/// Takes the header of the PROXY protocol off a connection, and not a byte more: a TLS handshake may follow in the same
/// packet.
///
/// Use:     auto header = co_await read_proxy_header(loop, stream.fd(), families, {.deadline = …});
/// Rules:   the first to read from the connection; a Stream may hold it, if it has not been read from.
/// Errors:  ProxyHeaderError, with what was received as the context; timed_out, cancelled; errno of the socket.
/// Thread:  the loop's. The descriptor must outlive the wait.
#include "lib/base/async/loop.h"
#include "lib/net/proxy_header.h"

namespace pen::net {

async::Task<Result<ProxyHeader>> read_proxy_header(async::Loop& loop, int fd, ProxyFamilies families,
                                                   async::Until until);

}  // namespace pen::net
