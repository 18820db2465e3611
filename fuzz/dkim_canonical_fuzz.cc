// The canonical form of a body, in pieces of any size, is what the plain and slow one says; fields stay fields.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "lib/base/check.h"
#include "lib/trust/dkim/testing/slow_canonical.h"

namespace {

using namespace pen;

std::string in_pieces(dkim::Form form, std::string_view body, std::size_t piece) {
  dkim::CanonicalBody canonical(form);
  std::string out;
  const auto put = [&](std::string_view part) { out += part; };
  for (; !body.empty(); body.remove_prefix(std::min(piece, body.size()))) canonical.feed(body.substr(0, piece), put);
  canonical.finish(put);
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  for (const auto form : {dkim::Form::simple, dkim::Form::relaxed}) {
    const std::string slow = dkim::testing::slow_body(form, input);
    for (const std::size_t piece : {std::size_t{1}, std::size_t{5}, input.size() + 1})
      PEN_CHECK(in_pieces(form, input, piece) == slow, "another canonical form");
    PEN_CHECK(in_pieces(form, slow, 3) == slow, "the canonical form of itself is another");
  }
  std::size_t seen = 0;
  for (const auto& field : dkim::split_fields(input, 1000)) {
    PEN_CHECK(!field.name.empty() && field.whole.data() == input.data() + seen, "a field is not where it should be");
    seen = std::min(seen + field.whole.size() + 2, input.size());
    std::string once, twice;
    dkim::append_canonical(dkim::Form::relaxed, field.whole, once);
    dkim::append_canonical(dkim::Form::relaxed, once, twice);
    PEN_CHECK(once == twice, "the canonical form of itself is another");
  }
  return 0;
}
