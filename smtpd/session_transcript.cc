/// Transcripts of sessions with errors, for the postmaster (notify_classes).
#include "lib/base/text.h"
#include "smtpd/session.h"

namespace pen::smtpd {

void Session::limit_transcript() {
  if (!transcript_) return;
  if (transcript_->lines() <= static_cast<std::uint64_t>(settings().smtpd_history_flush_threshold)) return;
  tell_postmaster();
  transcript_->clear();
}

void Session::tell_postmaster() {
  if (!transcript_) return;
  const auto errors = transcript_->errors().among(policy_->told);
  if (errors.empty()) return;
  ipc::session_errors::Session session;
  session.role = ipc::session_errors::Role::smtp_server;
  session.peer = client_.peer.shown();
  session.classes = errors.bits();
  session.transcript = transcript_->text();
  session.reason = aborted_;
  server_.tell_postmaster(std::move(session));
}

}  // namespace pen::smtpd
