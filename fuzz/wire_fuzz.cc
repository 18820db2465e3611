// DATA and BDAT content in any split reads as the slow reference reads it whole.
#include <algorithm>
#include <cstdlib>

#include "lib/mail/wire.h"
#include "lib/mail/wire_reference.h"

using namespace pen::mail;

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  if (size < 1) return 0;
  const std::size_t step = data[0] % 16 + 1u;  // pieces of step, step+1, … bytes
  const std::string_view in(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto expected = reference::data(in);
  {
    DataScanner scan;
    reference::Sink sink;
    FactsCollector facts;
    std::size_t at = 0;
    for (std::size_t piece = step; at < in.size() && !scan.done(); ++piece)
      at += scan.feed(in.substr(at, piece), sink);
    if (scan.done() != expected.done) std::abort();
    if (scan.done() && (at != expected.consumed || sink.content != expected.content)) std::abort();
  }
  BdatScanner scan;
  reference::Sink sink;
  for (std::size_t at = 0; at < in.size(); at += step) scan.feed(in.substr(at, step), sink);
  scan.finish(sink);
  if (sink.content != reference::bdat(in)) std::abort();
  return 0;
}
