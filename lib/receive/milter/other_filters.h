#pragma once
/// Filters (milters) for mail that does not come by SMTP: a session is played to them for each message.
///
/// Use:     OtherFilters filters(loop, dns, settings, intake);     // dns: resolve::name_servers()
///          Judged j = co_await filters.judge(message, until);       // content has come, commit() comes next
/// Session: as Postfix's cleanup plays it: the message's client connects and says EHLO with its name; for mail that was
///          submitted on this host that is localhost [127.0.0.1].
/// Rules:   a filter must not refuse single recipients here: the message is then put off, with a warning.
/// Log:     by the handlers of Intake.
/// Source:  Postfix MILTER_README "Non-SMTP"; non_smtpd_milters, internal_mail_filter_classes.
/// Thread:  the loop's.
#include <memory>
#include <string>
#include <vector>

#include "lib/base/async/handler_pool.h"
#include "lib/net/dns.h"
#include "lib/receive/intake/derived.h"
#include "lib/receive/intake/intake.h"
#include "lib/receive/milter/chain.h"

namespace pen::milter {

class OtherFilters {
 public:
  OtherFilters(async::Loop& loop, net::ResolverOptions dns, std::shared_ptr<const Settings> settings,
               intake::Intake& intake);

  enum class Outcome : std::uint8_t {
    pass,     // commit it: changed, held, discarded, or refused
    put_off,  // not now
  };
  struct Judged {
    Outcome outcome = Outcome::pass;
    std::string why;                                 // put off, for the log
    std::string reply = {};                          // and for a client: "4.7.1 text"
    intake::Commit commit{intake::Outcome::ok, {}};  // of content that could not be changed
  };
  async::Task<Judged> judge(intake::Message& message, async::Until until);
  /// The same for mail that the system makes itself (internal_mail_filter_classes). Must outlive what it returns.
  intake::Judge for_own_mail();
  std::vector<std::string> status() const { return endpoints_.status(); }

 private:
  class Macros;
  async::Task<intake::Commit> judge_own(intake::Message& message, async::Until until);
  async::Task<Verdict> envelope(Chain& chain, intake::Message& message, Macros& macros, const char*& where);
  async::Task<resolve::Route> route(std::string sender, std::string address);
  async::Task<Result<std::vector<std::string>>> find_host(std::string host, async::Until until);
  void log_verdict(intake::Message& message, const Verdict& verdict, const char* where) const;

  async::HandlerPool name_threads_;
  net::Resolver resolver_;
  std::shared_ptr<const Settings> settings_;
  intake::Intake& intake_;
  Tools tools_;
  Endpoints endpoints_;
};

}  // namespace pen::milter
