#pragma once
/// The session of a client that failed a test with the action enforce: it may talk, and all its recipients are refused.
/// It takes no more than a connection: no restriction, filter, policy server or queue hears of it.
///
/// Use:     co_await RefusedSession::serve(talk, screened);             // to its end
///          co_await RefusedSession(talk, screened).command(text);      // the command that made it one
/// State:   what the client has said is in the Screened, which outlives the session.
/// Source:  postscreen(8).
/// Thread:  the loop's.
#include <string_view>

#include "lib/mail/command.h"
#include "smtpd/conversation.h"
#include "smtpd/screened.h"

namespace pen::smtpd {

class RefusedSession {
 public:
  RefusedSession(Conversation& talk, Screened& screened) : talk_(talk), screened_(screened) {}

  [[gnu::noinline]] static async::Task<void> serve(Conversation& talk, Screened& screened);
  [[gnu::noinline]] async::Task<Flow> command(std::string_view text);

 private:
  [[gnu::noinline]] async::Task<void> hello(const mail::CommandLine& line);
  void mail(const mail::CommandLine& line);
  [[gnu::noinline]] async::Task<void> rcpt(const mail::CommandLine& line);

  Conversation& talk_;
  Screened& screened_;
};

}  // namespace pen::smtpd
