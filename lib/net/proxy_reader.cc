#include "lib/net/proxy_reader.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <string>

#include "lib/base/async/readiness.h"
#include "lib/base/text.h"

namespace pen::net {
namespace {

constexpr std::size_t kShown = 200;  // of what is no header, in the log

/// Reads what has come and certainly belongs to the header. False: nothing has come. Error: end of input, errno.
Result<bool> read_more(int fd, std::string& input) {
  std::array<char, kMaxProxyHeader> ahead;
  const ssize_t seen = ::recv(fd, ahead.data(), ahead.size() - input.size(), MSG_PEEK | MSG_DONTWAIT);
  if (seen == 0) return fail(ProxyHeaderError::end_of_input);
  if (seen < 0) {
    if (errno == EAGAIN || errno == EINTR) return false;
    return fail_errno("");
  }
  const std::size_t before = input.size();
  input.append(ahead.data(), static_cast<std::size_t>(seen));
  input.resize(std::max(before + 1, proxy_header_part(input)));
  if (::recv(fd, ahead.data(), input.size() - before, MSG_DONTWAIT) < 0) return fail_errno("");
  return true;
}

}  // namespace

async::Task<Result<ProxyHeader>> read_proxy_header(async::Loop& loop, int fd, ProxyFamilies families,
                                                   async::Until until) {
  async::Readiness readiness(loop, fd);
  std::string input;
  for (;;) {
    PEN_CO_TRY_ASSIGN(const bool came, read_more(fd, input));
    if (!came) {
      PEN_CO_TRY(co_await readiness.readable(until));
      continue;
    }
    auto header = parse_proxy_header(input, families);
    if (!header) co_return pen::fail(std::move(header).error().within(printable(input, kShown)));
    if (*header) co_return **header;
  }
}

}  // namespace pen::net
