#pragma once
/// check_host(): whether a domain permits a client to send its mail.
///
/// Use:     auto outcome = co_await check(records, {.client = ip, .sender = "a@example.org", .helo = …}, until);
/// DNS:     whatever `records` answers. The same names are asked again if records repeat them: a cache is the caller's.
/// Bounds:  RFC 7208 section 4.6.4: kMostTerms terms that ask DNS, kMostVoid of them without an answer, kMostNames
///          hosts of an MX or PTR set; more is permerror (of PTR: not looked at). Of all MX sets together kMostHosts
///          hosts are asked for, which no RFC says: one message must not make a hundred questions at somebody's zone.
///          For the same reason checks of one message can share an Allowance; beyond it is permerror.
///          `until` bounds the time of all of it: a question that it ends is temperror.
/// Thread:  the loop's. `records` must outlive the task.
/// Source:  RFC 7208 sections 2.6, 4, 5, 6.2.
#include <functional>
#include <string>
#include <string_view>

#include "lib/base/async/loop.h"
#include "lib/base/network.h"
#include "lib/base/time.h"
#include "lib/net/dns.h"

namespace pen::spf {

enum class Verdict : std::uint8_t { none, neutral, pass, fail, softfail, temperror, permerror };
/// As in RFC 8601 section 2.7.2.
std::string_view verdict_word(Verdict verdict);

inline constexpr unsigned kMostTerms = 10, kMostVoid = 2;
inline constexpr std::size_t kMostNames = 10, kMostHosts = 30;
inline constexpr std::size_t kMaxExplanation = 300;

/// How many questions are left. Of HELO and MAIL together: records of the largest senders need about ten each.
struct Allowance {
  std::size_t questions = 40;
};

using Records = std::function<async::Task<net::DnsAnswer>(std::string name, net::RecordType type, async::Until until)>;

struct Question {
  IpAddress client;
  std::string sender;  // local@domain; for the HELO identity postmaster@HELO-name
  std::string helo;
  std::string receiver = "unknown";  // %{r}
  WallTime now{};                    // %{t}
  Allowance* allowance = nullptr;    // outlives the task; nullptr: the other bounds are enough
};

struct Outcome {
  Verdict verdict = Verdict::none;
  std::string domain;       // of the sender
  std::string reason;       // of none, temperror and permerror, for people
  std::string explanation;  // of fail: what the domain says, printable ASCII; empty: nothing
};

async::Task<Outcome> check(const Records& records, Question question, async::Until until);

}  // namespace pen::spf
