#include "lib/suite/service/listening_names.h"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <optional>
#include <string_view>

#include "lib/base/fd.h"

namespace pen::service {
namespace {

using Names = std::set<std::string>;

constexpr std::uint32_t kListens = 1U << 10;  // TCP_LISTEN, which is a socket's state here too
constexpr timeval kNetlinkPatience{.tv_sec = 2, .tv_usec = 0};
constexpr std::size_t kPiece = 32 * 1024;  // of the kernel's answers none is larger

/// nullopt: there is no such table.
std::optional<Names> by_table(const std::string& prefix, const char* table) {
  std::ifstream list(table);
  if (!list) return std::nullopt;
  Names names;
  for (std::string line; std::getline(list, line);)
    if (const auto at = line.find(" @" + prefix); at != std::string::npos) names.insert(line.substr(at + 2));
  return names;
}

/// Takes the structure off the front of the bytes. False: they end before.
template <class T>
bool take(std::string_view& bytes, T& out) {
  if (bytes.size() < sizeof out) return false;
  std::memcpy(&out, bytes.data(), sizeof out);
  bytes.remove_prefix(sizeof out);
  return true;
}

/// Takes what follows a header whose length, `all`, counts the header too; the next one begins at a multiple of four.
std::string_view take_rest(std::string_view& bytes, std::size_t all, std::size_t header) {
  const std::size_t size = std::min(std::max(all, header) - header, bytes.size());
  const std::string_view rest = bytes.substr(0, size);
  bytes.remove_prefix(std::min((size + 3) & ~std::size_t{3}, bytes.size()));
  return rest;
}

/// The name in an answer; "": it has none, or a file.
std::string_view name_in(std::string_view answer) {
  unix_diag_msg socket{};
  if (!take(answer, socket)) return {};
  for (rtattr part{}; take(answer, part);) {
    const std::string_view value = take_rest(answer, part.rta_len, sizeof part);
    if (part.rta_type == UNIX_DIAG_NAME) return value.starts_with('\0') ? value.substr(1) : std::string_view();
  }
  return {};
}

/// Adds what a piece of the kernel's answers holds. True: it is the last one.
Result<bool> read_piece(std::string_view piece, const std::string& prefix, Names& names) {
  for (nlmsghdr header{}; take(piece, header);) {
    std::string_view answer = take_rest(piece, header.nlmsg_len, sizeof header);
    if (header.nlmsg_type == NLMSG_DONE) return true;
    if (header.nlmsg_type == NLMSG_ERROR) {
      nlmsgerr why{};
      return fail_errno("sock_diag", take(answer, why) ? -why.error : EPROTO);
    }
    if (const auto name = name_in(answer); name.starts_with(prefix)) names.emplace(name);
  }
  return false;
}

Result<Names> by_netlink(const std::string& prefix) {
  const Fd fd(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
  if (!fd || ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &kNetlinkPatience, sizeof kNetlinkPatience) != 0)
    return fail_errno("sock_diag");
  struct {
    nlmsghdr header;
    unix_diag_req what;
  } request{};
  request.header.nlmsg_len = sizeof request;
  request.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  request.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
  request.what.sdiag_family = AF_UNIX;
  request.what.udiag_states = kListens;
  request.what.udiag_show = UDIAG_SHOW_NAME;
  if (::send(fd.get(), &request, sizeof request, 0) < 0) return fail_errno("sock_diag");
  Names names;
  std::string piece(kPiece, '\0');
  for (;;) {
    const ssize_t n = ::recv(fd.get(), piece.data(), piece.size(), 0);
    if (n <= 0) return fail_errno("sock_diag", n == 0 ? EPROTO : errno);
    const auto size = static_cast<std::size_t>(n);
    PEN_TRY_ASSIGN(const bool last, read_piece(std::string_view(piece).substr(0, size), prefix, names));
    if (last) return names;
  }
}

}  // namespace

Result<Names> listening_names(const std::string& prefix, const char* table) {
  if (auto names = by_table(prefix, table)) return *std::move(names);
  return by_netlink(prefix);
}

}  // namespace pen::service
