#include "lib/net/hosts_file.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "lib/base/text.h"

namespace pen::net {
namespace {

constexpr std::string_view kBlanks = " \t\r\v\f";

std::string_view take_word(std::string_view& line) {
  line.remove_prefix(std::min(line.find_first_not_of(kBlanks), line.size()));
  const auto word = line.substr(0, line.find_first_of(kBlanks));
  line.remove_prefix(word.size());
  return word;
}

bool numeric(const std::string& address) {
  std::array<unsigned char, 16> bytes{};
  return inet_pton(AF_INET, address.c_str(), bytes.data()) == 1 ||
         inet_pton(AF_INET6, address.c_str(), bytes.data()) == 1;
}

}  // namespace

std::vector<std::string> hosts_addresses(std::string_view text, std::string_view name) {
  std::vector<std::string> out;
  while (!text.empty() && out.size() < kMaxHostAddresses) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    line = line.substr(0, line.find('#'));
    const std::string address(take_word(line));
    for (auto word = take_word(line); !word.empty(); word = take_word(line)) {
      if (!iequals(word, name)) continue;
      if (numeric(address) && std::ranges::find(out, address) == out.end()) out.push_back(address);
      break;
    }
  }
  return out;
}

Result<std::vector<std::string>> read_hosts_file(const std::string& path, std::string_view name) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0 && errno == ENOENT) return std::vector<std::string>();
  if (fd < 0) return fail_errno("open " + path);
  std::string text;
  std::array<char, 16384> piece;
  ssize_t got = 0;
  int error = 0;
  do {
    got = ::read(fd, piece.data(), piece.size());
    if (got > 0) text.append(piece.data(), static_cast<std::size_t>(got));
    if (got < 0 && errno != EINTR) error = errno;
    if (text.size() > kMaxHostsFile) error = EFBIG;
  } while (got != 0 && error == 0);
  ::close(fd);
  if (error != 0) return fail_errno("read " + path, error);
  return hosts_addresses(text, name);
}

}  // namespace pen::net
