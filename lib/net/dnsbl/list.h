#pragma once
/// A DNS list as a setting names it: "domain", "domain=filter" or, where lists have weights, "domain=filter*weight".
/// And the sense of a list's answer.
///
/// Use:     auto list = parse_list("zen.example=127.0.0.[2..11]");
///          if (hits(*list, answer)) … it is listed; for reject_rbl_client
///          auto site = parse_site("list.dnswl.example=127.0.[2..14].[1..3]*-2"); // postscreen_dnsbl_sites
/// Filter:  four fields with dots between; each is a number from 0 to 255, or numbers and ranges a..b between [ and ],
///          with ; between them. An address matches if each of its bytes is in its field.
/// Errors:  ListError, with the text that is wrong.
/// Source:  Postfix postconf(5) reject_rbl_client, postscreen_dnsbl_sites; RFC 5782 section 2.1 (listed is an address
///          in 127.0.0.0/8).
/// Pure; any thread.
#include <array>
#include <bitset>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"
#include "lib/base/time.h"

namespace pen::dnsbl {

enum class ListError { bad_domain = 1, bad_filter, bad_weight };
std::string_view error_module(ListError);
std::string_view describe(ListError);

using Ipv4 = std::array<std::uint8_t, 4>;
std::string text_of(const Ipv4& address);

class Filter {
 public:
  static Result<Filter> parse(std::string_view text);
  bool matches(const Ipv4& address) const;

 private:
  std::array<std::bitset<256>, 4> fields_;
};

struct List {
  std::string text;    // as written: the key of rbl_reply_maps
  std::string domain;  // as written, without the filter
  std::optional<Filter> filter;
};
Result<List> parse_list(std::string_view text);

struct Site {
  List list;
  int weight = 1;  // negative: a list of the good
};
inline constexpr int kMaxWeight = 1'000'000;  // so that no sum of weights overflows
Result<Site> parse_site(std::string_view text);

/// What a list says about one client or domain, whatever its filter.
struct Answer {
  enum class State : std::uint8_t {
    listed,
    not_listed,
    unknown,  // no answer, or one that says nothing about the subject
  };
  State state = State::unknown;
  std::vector<Ipv4> addresses;  // of listed: at least one
  seconds ttl{0};               // how long this holds; of unknown: 0
};

/// Whether the answer means "listed": an address matches the filter or, without one, is in 127.0.0.0/8. (A domain that
/// has been given up is often sold, and then has an address of a web server for every name below it.)
bool hits(const List& list, const Answer& answer);

/// An answer that says: "you may not ask", or "you asked wrongly". 127.255.255.0/24, as Spamhaus has it.
bool means_refused(const Ipv4& address);
/// The same of a list of the good: also 127.0.0.255, with which dnswl.org answers everything beyond a limit.
bool means_refused_by_allow_list(const Ipv4& address);

}  // namespace pen::dnsbl
