#pragma once
/// Sends the postmaster the transcripts of sessions with errors, as smtpd and smtp tell of them (lib/ipc/session_errors.h).
///
/// Use:     SessionNotices notices(intake, settings, random);  co_await notices.send(session);    // one after another
/// Limit:   kAtOnce notices, then one every kEvery: a full disk or an attack makes thousands of such sessions, and their
///          notices would be the flood's second half. The next notice that is sent tells how many were not.
/// Promise: none: a notice that cannot be queued is logged and gone.
/// Sender:  double_bounce_sender, so that a notice which fails makes no other.
/// Thread:  the loop's.
/// Source:  Postfix notify_classes, error_notice_recipient, bounce_notice_recipient.
#include <string>

#include "lib/base/random.h"
#include "lib/intake/intake.h"
#include "lib/ipc/session_errors.h"

namespace pen::bounce {

/// How many more of something there may be now.
class Allowance {
 public:
  static constexpr int kAtOnce = 30;
  static constexpr seconds kEvery{6};
  /// False: not now, and it is counted.
  bool take(SteadyTime now);
  /// How often take() was false since this was asked last.
  std::uint64_t take_refused() { return std::exchange(refused_, 0); }

 private:
  int left_ = kAtOnce;
  SteadyTime filled_{};
  std::uint64_t refused_ = 0;
};

struct SessionNoticeSettings {
  std::string mail_name, hostname, origin;
  std::string errors_to = "postmaster";  // error_notice_recipient
  std::string bounces_to =
      "postmaster";  // bounce_notice_recipient: sessions with mail that was refused as undeliverable
  bool obsolete_from = false;  // header_from_format
  std::string sender;          // double_bounce_sender, with its domain
};

/// The notice from its first header field on, CRLF lines of ASCII. left_out: sessions that no notice tells of.
std::string session_notice(const ipc::session_errors::Session& session,
                           const SessionNoticeSettings& settings, std::string_view message_id,
                           WallTime now, std::uint64_t left_out);

class SessionNotices {
 public:
  /// The intake and random must outlive it.
  SessionNotices(intake::Intake& intake, SessionNoticeSettings settings, Random& random)
      : intake_(intake), settings_(std::move(settings)), random_(random) {}
  async::Task<void> send(ipc::session_errors::Session session);
  std::uint64_t sent() const { return sent_; }

 private:
  intake::Intake& intake_;
  SessionNoticeSettings settings_;
  Random& random_;
  Allowance allowance_;
  std::uint64_t sent_ = 0;
};

}  // namespace pen::bounce
