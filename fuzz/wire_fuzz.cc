// DATA and BDAT content, cut anywhere, gives the same as the slow reference gives for the whole.
#include <algorithm>
#include <cstdlib>

#include "lib/mail/plain_lines.h"
#include "lib/mail/testing/wire_reference.h"
#include "lib/mail/wire.h"

using namespace pen::mail;

namespace {

/// A sink that takes plain lines in one piece, as the content builder does.
struct Lines : reference::Sink {
  bool takes_lines() const { return true; }
  void lines(std::string_view text, const PlainLines&) { content += text; }
};

void check_plain_lines(std::string_view in, std::size_t max_line) {
  const PlainLines expected = reference::plain_lines(in, max_line);
  for (const auto code : {BlockCode::plain, BlockCode::sse2, BlockCode::avx2, BlockCode::avx512}) {
    PlainLines found;
    if (plain_lines_by(code, in, max_line, found) && !(found == expected)) std::abort();
  }
}

template <class Sink>
void check_data(std::string_view in, std::size_t step, const reference::Read& expected) {
  DataScanner scan;
  Sink sink;
  std::size_t at = 0;
  for (std::size_t piece = step; at < in.size() && !scan.done(); ++piece) at += scan.feed(in.substr(at, piece), sink);
  if (scan.done() != expected.done) std::abort();
  if (scan.done() && (at != expected.consumed || sink.content != expected.content)) std::abort();
}

template <class Sink>
void check_bdat(std::string_view in, std::size_t step) {
  BdatScanner scan;
  Sink sink;
  for (std::size_t at = 0; at < in.size(); at += step) scan.feed(in.substr(at, step), sink);
  scan.finish(sink);
  if (sink.content != reference::bdat(in)) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  if (size < 1) return 0;
  const std::size_t step = data[0] % 16 + 1u;  // pieces of step, step+1, … bytes
  const std::string_view in(reinterpret_cast<const char*>(data) + 1, size - 1);
  check_plain_lines(in, data[0] % 3 == 0 ? data[0] : SIZE_MAX);
  const auto expected = reference::data(in);
  check_data<reference::Sink>(in, step, expected);
  check_data<Lines>(in, step, expected);
  check_data<Lines>(in, in.size() + 1, expected);
  check_bdat<reference::Sink>(in, step);
  check_bdat<Lines>(in, step);
  return 0;
}
