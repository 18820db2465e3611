#pragma once
/// What is kept of a client: until when each test counts as passed.
///
/// Form:    "pregreet;dnsbl;pipelining;nonsmtp;barelf" as unix seconds, as Postfix's postscreen writes it. 0: never
///          passed; 1: the test was not made when the client passed the others.
/// Use:     auto known = Record::parse(stored);   stored = record.text();
/// Keys:    key_of(address): the address as numbers are written shortest, so that one host has one record.
/// Pure; any thread.
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace pen::triage {

enum class Test : std::uint8_t { pregreet, dnsbl, pipelining, non_smtp, bare_newline };
inline constexpr std::size_t kTests = 5;
inline constexpr Test kAllTests[kTests] = {Test::pregreet, Test::dnsbl, Test::pipelining, Test::non_smtp,
                                           Test::bare_newline};
/// Tests that end before the greeting; the others watch the session.
constexpr bool is_early(Test test) { return test == Test::pregreet || test == Test::dnsbl; }

struct Record {
  static constexpr std::int64_t kNever = 0, kDisabled = 1;
  static constexpr std::size_t kMostText = 128;  // five numbers; longer text is not ours

  std::array<std::int64_t, kTests> until{};

  /// nullopt: no record. What other programs or a damaged disk have left is a lost hint, never an error.
  static std::optional<Record> parse(std::string_view text);
  std::string text() const;

  std::int64_t& of(Test test) { return until[static_cast<std::size_t>(test)]; }
  std::int64_t of(Test test) const { return until[static_cast<std::size_t>(test)]; }
  /// When the last of the passes has run out.
  std::int64_t end() const;
  bool operator==(const Record&) const = default;
};

/// "": not an address.
std::string key_of(std::string_view address);

}  // namespace pen::triage
