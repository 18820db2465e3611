#pragma once
/// An SPF record, taken apart: what a domain says of the hosts that send its mail.
///
/// Use:     if (Record::is_one(txt)) auto record = Record::parse(txt);   // the whole of it, before anything is asked
/// Errors:  syntax, for a mistake anywhere in the record: its owner meant something else than can be read.
/// Bounds:  kMaxSize; a target of at most kMaxTarget, so that macros cannot blow it up.
/// Source:  RFC 7208 sections 4.5, 4.6, 5, 6 and 12. Pure.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/network.h"

namespace pen::spf {

enum class SpfError { syntax = 1 };
inline std::string_view error_module(SpfError) { return "spf"; }
std::string_view describe(SpfError e);

enum class Qualifier : std::uint8_t { pass, fail, softfail, neutral };
enum class Mechanism : std::uint8_t { all, include, a, mx, ptr, ip4, ip6, exists };

struct Directive {
  Qualifier qualifier = Qualifier::pass;
  Mechanism mechanism = Mechanism::all;
  std::string target;                // before macros are expanded; empty: the domain itself
  IpAddress network;                 // ip4, ip6
  unsigned bits4 = 32, bits6 = 128;  // a, mx, ip4, ip6
};

struct Record {
  // Published records are below 1 KiB; what is longer would not fit into an answer over UDP.
  static constexpr std::size_t kMaxSize = 8192;
  static constexpr std::size_t kMaxTarget = 512;

  std::vector<Directive> directives;
  std::string redirect;     // empty: none
  std::string explanation;  // exp=, the name of a TXT record; empty: none

  static bool is_one(std::string_view text);
  static Result<Record> parse(std::string_view text);
};

}  // namespace pen::spf
