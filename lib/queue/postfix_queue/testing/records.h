#pragma once
/// Makes files of Postfix's queue, for tests.
///
/// Use:     Records r;  r.size(5).add('T', "1 0").add('S', "a@b").recipient("c@d").content({"x"});  r.end()
#include <fmt/format.h>

#include <string>
#include <string_view>
#include <vector>

namespace pen::postfix_queue {

struct Records {
  std::string bytes;

  Records& add(char type, std::string_view data) {
    bytes += type;
    std::size_t left = data.size();
    do {
      const std::size_t low = left & 0x7FU;
      left >>= 7;
      bytes += static_cast<char>(low | (left > 0 ? 0x80U : 0U));
    } while (left > 0);
    bytes += data;
    return *this;
  }
  Records& attribute(std::string_view text) { return add('A', text); }
  Records& size(std::size_t n) {
    return add('C', fmt::format("{:15} {:15} {:15} {:15} {:15} {:15}", n, 0, 1, 0, n, 0));
  }
  Records& recipient(std::string_view address) { return add('O', address).add('R', address); }
  Records& content(const std::vector<std::string>& lines) {
    add('M', "");
    for (const auto& line : lines) add('N', line);
    return add('X', "");
  }
  /// Where its number begins.
  std::size_t pointer(std::size_t target) {
    add('p', fmt::format("{:15}", target));
    return bytes.size() - 15;
  }
  void point(std::size_t pointer_at, std::size_t target) {
    bytes.replace(pointer_at, 15, fmt::format("{:15}", target));
  }
  std::string end() { return add('E', "").bytes; }
};

}  // namespace pen::postfix_queue
