#pragma once
/// Sends the postmaster the transcripts of sessions with errors that smtpd and smtp report
/// (lib/suite/ipc/session_errors.h).
///
/// Use:     SessionNotices notices(intake, settings, random);  co_await notices.send(session);    // one after another
/// Limit:   kAtOnce notices, then one every kEvery: a full disk or an attack makes thousands of such sessions, and
///          their notices would double the flood. The next queued notice says how many were left out. Sessions with a
///          lack of resources or broken software have allowances of their own, so that clients' errors leave room for
///          this host's.
/// Promise: none: a notice that cannot be queued is logged and counted. If the recipient is empty, nothing is sent.
/// Sender:  double_bounce_sender, so that a failed notice causes no other.
/// Thread:  the loop's.
/// Source:  Postfix notify_classes, error_notice_recipient, bounce_notice_recipient.
#include <string>

#include "lib/base/random.h"
#include "lib/mail/error_class.h"
#include "lib/receive/intake/derived.h"
#include "lib/suite/ipc/session_errors.h"

namespace pen::bounce {

/// Limits how many notices of a kind there may be now.
class Allowance {
 public:
  static constexpr int kAtOnce = 30;
  static constexpr seconds kEvery{6};
  /// False: not now; counts one as left out.
  bool take(SteadyTime now);
  /// How many were left out and not reported yet. A caller that cannot report them must call leave_out() again.
  std::uint64_t take_left_out() { return std::exchange(left_out_, 0); }
  void leave_out(std::uint64_t more) { left_out_ += more; }

 private:
  int left_ = kAtOnce;
  SteadyTime filled_{};
  std::uint64_t left_out_ = 0;
};

struct SessionNoticeSettings {
  std::string mail_name, hostname, origin;
  std::string errors_to = "postmaster";  // error_notice_recipient
  std::string bounces_to =
      "postmaster";            // bounce_notice_recipient: sessions with mail that was refused as undeliverable
  bool obsolete_from = false;  // header_from_format
  std::string sender;          // double_bounce_sender, with its domain
  intake::OwnMail own = {};
};

/// The whole notice, header first, in CRLF lines of ASCII. left_out: sessions that no notice covers.
std::string session_notice(const ipc::session_errors::Session& session, const SessionNoticeSettings& settings,
                           std::string_view message_id, WallTime now, std::uint64_t left_out);

class SessionNotices {
 public:
  /// The intake and random must outlive it.
  SessionNotices(intake::Intake& intake, SessionNoticeSettings settings, Random& random)
      : intake_(intake), settings_(std::move(settings)), random_(random) {}
  async::Task<void> send(ipc::session_errors::Session session);
  std::uint64_t sent() const { return sent_; }

 private:
  Allowance& allowance_for(mail::ErrorClasses classes);

  intake::Intake& intake_;
  SessionNoticeSettings settings_;
  Random& random_;
  Allowance resource_, software_, others_;
  std::uint64_t sent_ = 0;
};

}  // namespace pen::bounce
