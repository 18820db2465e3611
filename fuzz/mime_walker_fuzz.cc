// A message taken apart: its parts put together are the message, however it was cut, and bounds hold.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "lib/base/check.h"
#include "lib/mail/address.h"
#include "lib/mail/mime_walker.h"
#include "lib/mail/wire.h"

namespace {

using namespace pen;

struct Whole final : mail::MimeWalker::Sink {
  std::string text, events;
  std::size_t longest = 0;
  Whole(std::string_view input, std::size_t step, bool lines) {
    mail::MimeWalker walker(
        *this, {.mime = true, .lines = lines, .max_field = 1000, .max_line = 100, .max_boundary = 70, .max_depth = 5});
    mail::BdatScanner scanner({.replace_bare_cr = false});
    for (std::size_t at = 0; at < input.size(); at += step) scanner.feed(input.substr(at, step), walker);
    scanner.finish(walker);
    walker.finish();
  }
  void put(char what, std::string_view piece, bool ends) {
    // Uninspected text comes in the pieces in which it was fed.
    if (what != 'm' || !events.ends_with('m')) events += what;
    if (what != 'm') longest = std::max(longest, piece.size());
    for (const char c : piece) {
      if (c == '\n') text += '\r';
      text += c;
    }
    if (ends) text += "\r\n";
  }
  void field(mail::MimeWalker::Header h, std::string_view piece, bool ends) override {
    PEN_CHECK(!piece.empty() && piece.front() != ' ', "a field without a name");
    put(static_cast<char>('0' + static_cast<int>(h)), piece, ends);
  }
  void more_field(mail::MimeWalker::Header, std::string_view piece, bool ends) override { put('m', piece, ends); }
  void end_of_header(mail::MimeWalker::Header, bool separator) override {
    events += 'e';
    if (separator) text += "\r\n";
  }
  void body(std::string_view piece, bool ends) override { put('b', piece, ends); }
};

/// The stored form: lines that end in CRLF.
struct Stored {
  std::string out;
  void text(std::string_view part) { out += part; }
  void line_end() { out += "\r\n"; }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  Stored stored;
  mail::BdatScanner scanner({.replace_bare_cr = false});
  scanner.feed(input, stored);
  scanner.finish(stored);
  const Whole lines(input, size + 1, true);
  PEN_CHECK(lines.text == stored.out, "something was lost");
  PEN_CHECK(lines.longest <= 1000, "a piece beyond the bounds");
  const Whole cut(input, 1 + size % 7, true);
  PEN_CHECK(cut.events == lines.events && cut.text == lines.text, "the cut matters");
  PEN_CHECK(Whole(input, size + 1, false).text == stored.out, "something was lost without lines");
  PEN_CHECK(Whole(input, 3, false).text == stored.out, "something was lost in cuts");

  std::string list(input);
  const auto same =
      mail::replace_addresses(list, [](std::string_view a) -> Result<std::string> { return std::string(a); });
  PEN_CHECK(same.has_value() && !*same && list == input, "nothing was to change");
  const std::size_t before = list.size();
  std::size_t asked = 0;
  (void)mail::replace_addresses(list, [&](std::string_view) -> Result<std::string> {
    ++asked;
    return std::string("x@y");
  });
  PEN_CHECK(list.size() <= before + 3 * asked, "more than addresses changed");
  return 0;
}
