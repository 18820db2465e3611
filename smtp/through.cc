#include "smtp/through.h"

#include <cstring>

#include "lib/base/check.h"
#include "lib/send/egress/proxy_v2.h"
#include "lib/send/egress/socks5.h"

namespace pen::smtp {

using async::Task;
using egress::Proxy;
using egress::Socks5;
using ipc::delivery::Trouble;

namespace {

Proxy proxy_of(const ipc::delivery::Through& t) {
  Proxy p;
  p.kind = static_cast<Proxy::Kind>(t.proxy);
  p.host = t.proxy_host;
  p.port = t.proxy_port;
  p.user = t.user;
  p.password = t.password;
  return p;
}

std::string words_of(const Error& error) {
  if (error.is(async::WaitError::timed_out)) return std::strerror(ETIMEDOUT);
  if (error.is(async::WaitError::closed)) return "it hung up";
  return error.sys_errno() != 0 ? std::strerror(error.sys_errno()) : error.message();
}

Unreached of_source(const ipc::delivery::Through& t, const std::string& why) {
  return {Trouble::source, source_trouble(t, "proxy " + proxy_of(t).shown() + ": " + why)};
}

/// A connection that was given up by us is nobody's fault.
Unreached of_proxy(const ipc::delivery::Through& t, const Error& error) {
  if (error.is(async::WaitError::cancelled)) return {Trouble::none, "given up"};
  return of_source(t, words_of(error));
}

Unreached of_host(const ipc::Destination& d, const Socks5& socks) {
  const Trouble trouble = socks.fault() == Socks5::Fault::refused     ? Trouble::refused
                          : socks.fault() == Socks5::Fault::timed_out ? Trouble::timed_out
                                                                      : Trouble::unreachable;
  return {trouble, "connect to " + d.shown() + ": " + socks.why()};
}

}  // namespace

std::string source_trouble(const ipc::delivery::Through& through, const std::string& why) {
  return "source " + through.source + ": " + why;
}

Task<std::expected<async::Stream, Unreached>> reach(async::Loop& loop, ipc::Destination destination,
                                                    ipc::delivery::Through through, async::Until until) {
  const Proxy proxy = proxy_of(through);
  const auto target = parse_ip(destination.address);
  const auto source = parse_ip(through.address);
  PEN_CHECK(target.has_value(), "a proxy is given an address");
  auto stream = co_await async::connect(loop, async::SocketAddress::inet(proxy.host, proxy.port), until);
  if (!stream) co_return std::unexpected(of_proxy(through, stream.error()));
  if (proxy.kind == Proxy::Kind::haproxy) {
    if (!source || source->size != target->size)
      co_return std::unexpected(of_source(through, "the source has no address of the host's family"));
    stream->write(egress::proxy_v2(*source, *target, destination.port));
    if (auto sent = co_await stream->flush(until); !sent) co_return std::unexpected(of_proxy(through, sent.error()));
    co_return std::move(*stream);
  }
  Socks5 socks(proxy, source.value_or(*target), *target, destination.port);
  std::string reply;  // bounded: Socks5 takes or refuses what is longer than a reply
  while (socks.state() == Socks5::State::talking) {
    if (const std::string command = socks.take_output(); !command.empty()) {
      stream->write(command);
      if (auto sent = co_await stream->flush(until); !sent) co_return std::unexpected(of_proxy(through, sent.error()));
    }
    // Byte by byte: what follows the last reply is the host's.
    const auto read = co_await stream->read_exact(1, until);
    if (!read) co_return std::unexpected(of_proxy(through, read.error()));
    reply += *read;
    reply.erase(0, socks.feed(reply));
  }
  if (socks.state() == Socks5::State::done) co_return std::move(*stream);
  if (socks.fault() == Socks5::Fault::proxy) co_return std::unexpected(of_source(through, socks.why()));
  co_return std::unexpected(of_host(destination, socks));
}

}  // namespace pen::smtp
