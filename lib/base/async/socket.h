#pragma once
/// Sockets before and around a Stream: their addresses, the address of the peer, listening.
///
/// Use:     auto fd = listen_on(SocketAddress::inet("127.0.0.1", 0));  auto port = local_address(fd->get())->port;
///          then Listener (listener.h) accepts, connect() (stream.h) goes there.
/// Owns:    what set_tcp_window() has set, for this process.
/// Errors:  the errno of the socket call. Nothing here waits.
#include <string>
#include <utility>

#include "lib/base/fd.h"
#include "lib/base/result.h"

namespace pen::async {

/// The address of a socket: a numeric IP address and a port, or the path of a Unix socket. Names are not looked up.
struct SocketAddress {
  std::string host;  // numeric address; empty for Unix
  unsigned short port = 0;
  std::string path;  // Unix
  static SocketAddress unix(std::string path_in) { return {{}, 0, std::move(path_in)}; }
  static SocketAddress inet(std::string host_in, unsigned short port_in) { return {std::move(host_in), port_in, {}}; }
  bool is_unix() const { return !path.empty(); }
  bool is_ipv6() const { return host.find(':') != std::string::npos; }
  /// "[192.0.2.1]:25" or the path.
  std::string text() const;
};

Result<SocketAddress> peer_address(int fd);
Result<SocketAddress> local_address(int fd);
struct PeerCredentials {
  unsigned pid = 0, uid = 0, gid = 0;
};
Result<PeerCredentials> peer_credentials(int fd);

/// Listens at the address. Port 0 picks a free port (see local_address). A Unix socket file that nobody listens on is
/// replaced, and so is a link, wherever it leads.
Result<Fd> listen_on(const SocketAddress& at, int backlog = 1024);

/// tcp_windowsize: bytes of both buffers of TCP sockets, for connect(), listen_on() and what they accept. 0: the kernel
/// chooses. A connection is agreed without scaled windows when they are smaller than 64 KiB.
void set_tcp_window(int bytes);
/// Gives a TCP socket its buffers, before it listens or connects.
Result<void> limit_tcp_window(int fd);

}  // namespace pen::async
