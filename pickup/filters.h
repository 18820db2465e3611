#pragma once
/// Filters (milters) for mail that was submitted on this host: a session is played to them for each message.
///
/// Use:     LocalFilters filters(loop, settings, resolve, intake);
///          Judged j = co_await filters.judge(message, until);       // content has come, commit() comes next
/// Session: as Postfix's cleanup plays it: localhost [127.0.0.1] connects and says EHLO localhost.
/// Rules:   a filter must not refuse single recipients here: the message then waits, with a warning.
/// Source:  Postfix MILTER_README "Non-SMTP"; non_smtpd_milters.
/// Thread:  the loop's.
#include <memory>
#include <string>
#include <vector>

#include "lib/async/handler_pool.h"
#include "lib/intake/intake.h"
#include "lib/milter/chain.h"

namespace pen::pickup {

class LocalFilters {
 public:
  LocalFilters(async::Loop& loop, std::shared_ptr<const milter::Settings> settings, intake::Intake& intake);

  enum class Outcome : std::uint8_t {
    pass,     // commit it: changed, held, discarded, or refused, in which case it goes back to its sender
    put_off,  // not now
  };
  struct Judged {
    Outcome outcome = Outcome::pass;
    std::string why;
    intake::Commit commit{intake::Outcome::ok, {}};  // of content that could not be changed
  };
  async::Task<Judged> judge(intake::Message& message, async::Until until);
  std::vector<std::string> status() const { return endpoints_.status(); }

 private:
  class Macros;
  async::Task<milter::Verdict> envelope(milter::Chain& chain, intake::Message& message, Macros& macros,
                                        const char*& where);
  async::Task<resolve::Route> route(std::string sender, std::string address);
  async::Task<Result<std::vector<std::string>>> find_host(std::string host);
  void log_verdict(intake::Message& message, const milter::Verdict& verdict, const char* where) const;

  async::HandlerPool name_threads_;  // the host's resolver may hang: nothing else waits for these
  std::shared_ptr<const milter::Settings> settings_;
  intake::Intake& intake_;
  milter::Tools tools_;
  milter::Endpoints endpoints_;
};

}  // namespace pen::pickup
