#include "lib/net/dns_exchange.h"

namespace pen::net {
namespace {

using async::Task;
using async::Until;

/// Reads one length-prefixed message. The view dies at the next read.
Task<Result<std::string_view>> read_message(async::Stream& stream, Until until) {
  PEN_CO_TRY_ASSIGN(const std::string_view prefix, co_await stream.read_exact(2, until));
  const std::size_t size =
      std::size_t{static_cast<unsigned char>(prefix[0])} << 8 | static_cast<unsigned char>(prefix[1]);
  if (size == 0) co_return std::string_view();
  co_return co_await stream.read_exact(size, until);
}

std::uint16_t random_id() { return static_cast<std::uint16_t>(secure_random_u64()); }

}  // namespace

Task<Result<DnsReply>> DnsExchange::over_tcp() {
  const Until until{.deadline = loop.now() + timeout};
  const std::uint16_t id = random_id();
  PEN_CO_TRY_ASSIGN(const std::string query, build_query(question, id, true, dnssec));
  PEN_CO_TRY_ASSIGN(async::Stream stream, co_await async::connect(loop, server, until));
  std::string framed;
  framed += static_cast<char>(query.size() >> 8);
  framed += static_cast<char>(query.size() & 255);
  framed += query;
  stream.write(framed);
  PEN_CO_TRY_ASSIGN(const std::string_view message, co_await read_message(stream, until));
  auto reply = parse_reply(message, question, id);
  if (!reply) ++refused;
  co_return reply;
}

}  // namespace pen::net
