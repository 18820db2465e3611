#include "lib/base/codec.h"

#include <boost/test/unit_test.hpp>

#include "lib/base/random.h"

using namespace pen;

namespace {
enum class Colour : std::uint8_t { red = 1, green = 200 };
struct Inner {
  std::uint32_t n = 0;
  std::string s;
  PEN_FIELDS(n, s)
  bool operator==(const Inner&) const = default;
};
struct Old {
  std::string a;
  PEN_FIELDS(a)
};
struct Signal {
  PEN_NO_FIELDS
  bool operator==(const Signal&) const = default;
};
struct Outer {
  std::string a;
  std::int64_t b = -5;
  bool c = true;
  Colour d = Colour::green;
  std::vector<Inner> e;
  std::optional<std::string> f;
  std::variant<Signal, Inner> g;
  double h = 0;
  milliseconds i{0};
  WallTime j{};
  PEN_FIELDS(a, b, c, d, e, f, g, h, i, j)
  bool operator==(const Outer&) const = default;
};
Outer sample() {
  return {"x",   -1234567890123, false, Colour::red,      {{1, "one"}, {2, ""}},
          "yes", Inner{7, "v"},  0.5,   milliseconds(-3), WallTime(microseconds(99))};
}
}  // namespace

BOOST_AUTO_TEST_SUITE(codec)

BOOST_AUTO_TEST_CASE(a_struct_comes_back_as_it_went) { BOOST_TEST((decode<Outer>(encode(sample())) == sample())); }

BOOST_AUTO_TEST_CASE(fields_added_at_the_end_take_defaults_from_older_bytes) {
  const auto now = decode<Outer>(encode(Old{"only"}));
  BOOST_REQUIRE(now.has_value());
  BOOST_TEST(now->a == "only");
  BOOST_TEST(now->b == -5);
  BOOST_TEST(!decode<Old>(encode(sample())).has_value(), "left-over bytes are an error");
}

BOOST_AUTO_TEST_CASE(cut_and_flipped_input_never_crashes_nor_allocates_beyond_the_input) {
  const std::string good = encode(sample());
  Random random(42);
  for (std::size_t cut = 0; cut < good.size(); ++cut) (void)decode<Outer>(good.substr(0, cut));
  for (int i = 0; i < 20000; ++i) {
    std::string bad = good;
    for (int k = 0; k < 3; ++k) bad[random.below(bad.size())] = static_cast<char>(random.next());
    (void)decode<Outer>(bad);
  }
  BOOST_TEST(!decode<std::vector<Inner>>("\xff\xff\xff\xff\x0f").has_value());
}

BOOST_AUTO_TEST_SUITE_END()
