#pragma once
/// Asks DNS lists, for all sessions of a process.
///
/// Use:     Lookup lists(loop, records, report);
///          lists.begin(domain, question);                            // early, in the background
///          Answer a = co_await lists.ask(domain, question, until);   // joins it
///          std::string text = co_await lists.reason(domain, question);   // TXT, for the reply to a listed client
/// Answers: unknown if DNS has no answer in time, or the list refuses to answer (means_refused), or `domain` is at
///          rest. The caller goes on as if the subject were not listed.
/// Sharing: the same question asked by several at once is asked once. The resolver behind `records` keeps answers for
///          their TTL and bounds how many it keeps. That a question had no answer is kept for Limits::rest, so that a
///          session that asks several silent lists one after the other does not wait for each.
/// Silence: a list that never answers must hold up nobody else. It has at most Limits::at_once questions under way,
///          of the many that the resolver has in all; each waits Limits::patience at most. After Limits::failures in a
///          row it rests: for Limits::rest nobody waits for it.
/// Says:    report() is called for a list's trouble, at most once in Limits::tell_again for each list.
/// Thread:  the loop's. Must outlive its ask()s. Destroying it ends what runs in the background.
/// Source:  Postfix smtpd(8), dnsblog(8) for the words; Spamhaus' return codes for refusals.
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "lib/base/async/sync.h"
#include "lib/net/dns.h"
#include "lib/net/dnsbl/list.h"

namespace pen::dnsbl {

class Lookup {
 public:
  using Records = std::function<async::Task<net::DnsAnswer>(std::string name, net::RecordType type, async::Until)>;
  using Report = std::function<void(const std::string&)>;
  struct Limits {
    std::chrono::nanoseconds patience = seconds(10);  // postscreen_dnsbl_timeout
    std::size_t at_once = 200;                        // the resolver has 1000 in all
    std::size_t ahead = 1000;                         // of one list; begin() adds nothing to more
    unsigned failures = 10;
    seconds rest{30};
    seconds tell_again{3600};
    std::size_t unanswered = 10'000;  // questions that are kept
    std::size_t lists = 1000;         // with remembered troubles: an access table may make up names of lists
  };
  Lookup(async::Loop& loop, Records records, Report report) : Lookup(loop, std::move(records), std::move(report), {}) {}
  Lookup(async::Loop& loop, Records records, Report report, Limits limits);
  ~Lookup();
  Lookup(const Lookup&) = delete;
  Lookup& operator=(const Lookup&) = delete;

  /// Asks the list `domain`; the answer is there soon for a later ask(). Does nothing if the list has many questions
  /// already.
  void begin(const std::string& domain, const std::string& question);
  /// question: from about_address() or about_name(). until: ends this wait with `unknown`.
  async::Task<Answer> ask(std::string domain, std::string question, async::Until until = {});
  /// The TXT records of what is listed, with " / " between them, at most kMaxReason bytes. Empty: none, or none in
  /// time.
  async::Task<std::string> reason(std::string domain, std::string question, async::Until until = {});

  /// Says that the list refused this question, in a way that only the caller can know of.
  void refused_by(const std::string& domain, const std::string& question, const Ipv4& with);

  struct Counts {
    std::uint64_t asked = 0, joined = 0, unknown = 0, not_asked = 0;  // not_asked: of lists at rest
    std::size_t under_way = 0;
  };
  Counts counts() const;

 private:
  struct ListState;
  struct Pending;
  std::shared_ptr<ListState> state_of(const std::string& domain);
  std::shared_ptr<Pending> start(const std::string& domain, const std::shared_ptr<ListState>& list,
                                 const std::string& question);
  static async::Task<void> run(Lookup* self, std::string domain, std::shared_ptr<ListState> list, std::string question,
                               std::shared_ptr<Pending> pending);
  /// What DNS has said, as an answer; `why` is set if that is unknown.
  static Answer read(const net::DnsAnswer& said, std::string& why);
  /// Whether the question had no answer a short time ago. A question for TXT has kTextKey in front.
  bool unanswered(const std::string& question);
  void remember_unanswered(const std::string& question);
  void note(const std::string& domain, ListState& list, const std::string& question, const std::string& why);

  async::Loop& loop_;
  Records records_;
  Report report_;
  Limits limits_;
  Counts counts_;
  std::map<std::string, std::shared_ptr<ListState>, std::less<>> lists_;
  std::map<std::string, std::shared_ptr<Pending>, std::less<>> pending_;
  std::set<std::string> unanswered_;
  std::deque<std::pair<SteadyTime, std::string>> forget_;  // the same, by the time at which they are forgotten
  async::Gate gate_;                                       // declared last: what runs ends first
};

inline constexpr std::size_t kMaxReason = 500;

}  // namespace pen::dnsbl
