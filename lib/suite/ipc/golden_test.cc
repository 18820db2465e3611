// The bytes of every message of the last release, lib/suite/ipc/golden/RELEASE: programs of that release are met in an
// upgrade (docs/upgrade.md). What breaks the understanding fails here, and so needs a new kVersion; which then is
// this file anew.
//
// PEN_GOLDEN=write lib/suite/ipc/ipc_tests --run_test=golden writes the file for a release.
#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <regex>
#include <sstream>

#include "lib/suite/ipc/bounce.h"
#include "lib/suite/ipc/clients.h"
#include "lib/suite/ipc/delivery.h"
#include "lib/suite/ipc/destinations.h"
#include "lib/suite/ipc/dmarc_report.h"
#include "lib/suite/ipc/enqueue.h"
#include "lib/suite/ipc/events.h"
#include "lib/suite/ipc/frame.h"
#include "lib/suite/ipc/keys.h"
#include "lib/suite/ipc/queue.h"
#include "lib/suite/ipc/route.h"
#include "lib/suite/ipc/sender_memory.h"
#include "lib/suite/ipc/session_errors.h"
#include "lib/suite/ipc/sessions.h"
#include "lib/suite/ipc/suppression.h"
#include "lib/suite/ipc/tls_report.h"
#include "lib/suite/ipc/trace.h"
#include "lib/suite/ipc/verify.h"

namespace pen::ipc {
namespace {

constexpr const char* kFile = "lib/suite/ipc/golden/0.1";

/// Gives every field a value of its own that is not its default.
class Filler {
 public:
  template <class... Fields>
  void operator()(Fields&... fields) {
    (fill(fields), ...);
  }
  template <class T>
  void fill(T& value) {
    if constexpr (std::is_same_v<T, bool>) {
      value = true;
    } else if constexpr (std::is_enum_v<T>) {
      value = static_cast<T>(1);
    } else if constexpr (std::is_arithmetic_v<T>) {
      value = static_cast<T>(++number_ % 100 + 1);
    } else if constexpr (std::is_same_v<T, std::string_view>) {
      value = texts_.emplace_back(text());
    } else if constexpr (std::is_same_v<T, std::string>) {
      value = text();
    } else {
      compound(value);
    }
  }

 private:
  std::string text() { return "t" + std::to_string(++number_); }
  template <class T>
  void compound(std::vector<T>& values) {
    fill(values.emplace_back());
  }
  template <class T>
  void compound(std::optional<T>& value) {
    fill(value.emplace());
  }
  template <class... T>
  void compound(std::variant<T...>& value) {
    fill(value.template emplace<sizeof...(T) - 1>());
  }
  template <class Rep, class Period>
  void compound(std::chrono::duration<Rep, Period>& d) {
    d = std::chrono::duration_cast<std::chrono::duration<Rep, Period>>(seconds(++number_));
  }
  void compound(WallTime& t) { t = WallTime(seconds(++number_)); }
  template <class T>
    requires requires(T& v, Filler& f) { v.visit_fields(f); }
  void compound(T& value) {
    value.visit_fields(*this);
  }
  std::uint64_t number_ = 0;
  std::deque<std::string> texts_;
};

std::string hex(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) {
    constexpr const char* kDigits = "0123456789abcdef";
    const auto b = static_cast<unsigned char>(c);
    out += kDigits[b >> 4U];
    out += kDigits[b & 15U];
  }
  return out;
}
std::string bytes_of(const std::string& hex_text) {
  std::string out;
  for (std::size_t i = 0; i + 1 < hex_text.size(); i += 2)
    out += static_cast<char>(std::stoi(hex_text.substr(i, 2), nullptr, 16));
  return out;
}

/// What a direction of a conversation does with its messages.
struct Direction {
  std::string name;
  std::vector<std::string> samples;
  /// Decodes a frame of an earlier release and encodes it again; nullopt: it is not understood.
  std::function<std::optional<std::string>(std::string_view frame)> again;
};

template <class V>
Direction direction(const std::string& name) {
  Direction d{.name = name, .samples = {}, .again = {}};
  const auto sample = [&]<std::size_t I>(std::integral_constant<std::size_t, I>) {
    std::variant_alternative_t<I, V> message{};
    Filler filler;
    filler.fill(message);
    std::string frame;
    BOOST_REQUIRE((encode_frame<V>(frame, message, 0, max_frame("enqueue"))));
    d.samples.push_back(frame);
  };
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    (sample(std::integral_constant<std::size_t, I>()), ...);
  }(std::make_index_sequence<std::variant_size_v<V>>());
  d.again = [](std::string_view frame) -> std::optional<std::string> {
    const auto size = frame_size(frame, max_frame("enqueue"));
    if (!size) return std::nullopt;
    const auto parsed = parse_frame(frame.substr(kFrameHeader));
    if (!parsed) return std::nullopt;
    const auto message = decode_message<V>(*parsed);
    if (!message) return std::nullopt;
    std::string out;
    const bool whole =
        std::visit([&](const auto& m) { return encode_frame<V>(out, m, parsed->fds, max_frame("enqueue")); }, *message);
    return whole ? std::optional(out) : std::nullopt;
  };
  return d;
}

std::vector<Direction> directions() {
  return {direction<HelloMessage>("hello"),
          direction<bounce::ToBounce>("bounce.to"),
          direction<bounce::FromBounce>("bounce.from"),
          direction<clients::ToAnvil>("clients.to"),
          direction<clients::FromAnvil>("clients.from"),
          direction<delivery::ToProgram>("delivery.to"),
          direction<delivery::FromProgram>("delivery.from"),
          direction<destinations::ToQmgr>("destinations.to"),
          direction<destinations::FromQmgr>("destinations.from"),
          direction<dmarc_report::ToDmarcrpt>("dmarc_report.to"),
          direction<dmarc_report::FromDmarcrpt>("dmarc_report.from"),
          direction<enqueue::ToQmgr>("enqueue.to"),
          direction<enqueue::FromQmgr>("enqueue.from"),
          direction<events::ToEvents>("events.to"),
          direction<events::FromEvents>("events.from"),
          direction<keys::ToKeys>("keys.to"),
          direction<keys::FromKeys>("keys.from"),
          direction<queue::ToQmgr>("queue.to"),
          direction<queue::FromQmgr>("queue.from"),
          direction<route::ToRewrite>("route.to"),
          direction<route::FromRewrite>("route.from"),
          direction<sender_memory::ToAnvil>("sender_memory.to"),
          direction<sender_memory::FromAnvil>("sender_memory.from"),
          direction<session_errors::ToBounce>("session_errors.to"),
          direction<session_errors::FromBounce>("session_errors.from"),
          direction<sessions::ToAnvil>("sessions.to"),
          direction<sessions::FromAnvil>("sessions.from"),
          direction<suppression::ToAnvil>("suppression.to"),
          direction<suppression::FromAnvil>("suppression.from"),
          direction<suppression::OrderToAnvil>("suppression_orders.to"),
          direction<suppression::OrderFromAnvil>("suppression_orders.from"),
          direction<tls_report::ToTlsrpt>("tls_report.to"),
          direction<tls_report::FromTlsrpt>("tls_report.from"),
          direction<trace::ToProgram>("trace.to"),
          direction<trace::FromProgram>("trace.from"),
          direction<verify::ToVerify>("verify.to"),
          direction<verify::FromVerify>("verify.from"),
          direction<verify::ToProbed>("probed.to"),
          direction<verify::FromProbed>("probed.from")};
}

/// The fields of each struct that travels, in their order, as the headers have them: two fields of one type that change
/// places leave the bytes as they were.
std::map<std::string, std::string> field_lists() {
  std::map<std::string, std::string> lists;
  for (const char* folder : {"lib/suite/ipc", "lib/mail"}) {
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      if (entry.path().extension() != ".h") continue;
      std::ifstream file(entry.path());
      std::ostringstream content;
      content << file.rdbuf();
      const std::string text = content.str();
      static const std::regex kPattern(R"((?:^|\n)struct (\w+)|\n  PEN_FIELDS\(([^)]*)\))");
      std::string name;
      for (std::sregex_iterator it(text.begin(), text.end(), kPattern), end; it != end; ++it) {
        if ((*it)[1].matched) {
          name = (*it)[1];
          continue;
        }
        std::string fields = std::regex_replace(std::string((*it)[2]), std::regex("\\s+"), "");
        lists[entry.path().generic_string() + ":" + name] = fields;
      }
    }
  }
  return lists;
}

struct Golden {
  std::map<std::string, std::string> frames;  // "enqueue.to 2": bytes
  std::map<std::string, std::string> fields;
  unsigned version = 0, revision = 0;
};

Golden read() {
  Golden golden;
  std::ifstream file(kFile);
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string kind, name, number, value;
    words >> kind;
    if (kind == "version") words >> golden.version;
    if (kind == "revision") words >> golden.revision;
    if (kind == "frame") {
      words >> name >> number >> value;
      golden.frames[name + " " + number] = bytes_of(value);
    }
    if (kind == "fields") {
      words >> name >> value;
      golden.fields[name] = value;
    }
  }
  return golden;
}

void write() {
  std::ofstream file(kFile);
  file << "# Made by golden_test.cc of that release; never changed afterwards.\nversion " << kVersion << "\nrevision "
       << kRevision << "\n";
  for (const Direction& d : directions()) {
    for (std::size_t i = 0; i < d.samples.size(); ++i)
      file << "frame " << d.name << " " << i << " " << hex(d.samples[i]) << "\n";
  }
  for (const auto& [name, fields] : field_lists()) file << "fields " << name << " " << fields << "\n";
}

BOOST_AUTO_TEST_SUITE(golden)

BOOST_AUTO_TEST_CASE(every_message_of_the_last_release_is_understood) {
  if (const char* wish = std::getenv("PEN_GOLDEN"); wish != nullptr && std::string_view(wish) == "write") write();
  const Golden golden = read();
  BOOST_REQUIRE_GT(golden.frames.size(), 50u);
  BOOST_REQUIRE_GT(golden.revision, 0u);
  if (golden.version != kVersion) return;  // an upgrade from there says so, and is not begun
  std::map<std::string, std::function<std::optional<std::string>(std::string_view)>> readers;
  for (Direction& d : directions()) readers[d.name] = std::move(d.again);
  for (const auto& [name, frame] : golden.frames) {
    const std::string direction = name.substr(0, name.find(' '));
    BOOST_REQUIRE_MESSAGE(readers.contains(direction), name + " is gone");
    const auto again = readers[direction](frame);
    BOOST_REQUIRE_MESSAGE(again, name + " of the last release is not understood");
    // It may have become longer, by fields at its end: what comes after the length is what it was.
    BOOST_TEST(again->substr(kFrameHeader).starts_with(frame.substr(kFrameHeader)), name + " has changed");
    if (again->size() != frame.size()) BOOST_TEST(kRevision > golden.revision, name + " is longer: raise kRevision");
  }
}

BOOST_AUTO_TEST_CASE(every_message_of_this_version_is_in_the_file) {
  const Golden golden = read();
  if (golden.version != kVersion || golden.revision < kRevision) return;
  for (const Direction& d : directions()) {
    for (std::size_t i = 0; i < d.samples.size(); ++i) {
      const std::string name = d.name + " " + std::to_string(i);
      BOOST_TEST(golden.frames.contains(name), name + " is new: raise kRevision");
    }
  }
}

BOOST_AUTO_TEST_CASE(fields_keep_their_names_and_places) {
  const Golden golden = read();
  if (golden.version != kVersion) return;
  const auto now = field_lists();
  BOOST_TEST(golden.fields.size() > 50u);
  for (const auto& [name, fields] : golden.fields) {
    const auto it = now.find(name);
    BOOST_REQUIRE_MESSAGE(it != now.end(), name + " is gone");
    BOOST_TEST((it->second == fields || it->second.starts_with(fields + ",")),
               name + " had " + fields + " and has " + it->second);
  }
}

BOOST_AUTO_TEST_CASE(a_longer_message_is_read_of_a_later_peer_alone) {
  const enqueue::LeaseSpool message{.request = 6, .expected_size = 100};
  std::string frame;
  BOOST_REQUIRE((encode_frame<enqueue::ToQmgr>(frame, message, 0, max_frame("enqueue"))));
  frame += "later";  // a field of the next release
  const auto parsed = parse_frame(std::string_view(frame).substr(kFrameHeader));
  BOOST_REQUIRE(parsed.has_value());
  BOOST_TEST(!decode_message<enqueue::ToQmgr>(*parsed, false).has_value());
  const auto read = decode_message<enqueue::ToQmgr>(*parsed, true);
  BOOST_REQUIRE(read.has_value());
  BOOST_TEST(std::get<enqueue::LeaseSpool>(*read).expected_size == 100u);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace pen::ipc
