#include "smtpd/watchers.h"

#include <fmt/format.h>

#include "lib/base/log.h"
#include "lib/suite/events/emitter.h"

namespace pen::smtpd {

void Watchers::keep_transcript() {
  if (!transcript_) transcript_ = std::make_unique<mail::Transcript>(mail::Transcript::Side::server);
}

async::Task<void> Watchers::look_whether_to_log(const Policy& policy) {
  const auto named = co_await server_.intake.tables.ask(
      [&policy, peer = client_.peer] { return policy.traced.matches_host(peer.name, peer.address); });
  if (!named) log::warning("debug_peer_list: {}", named.error().message());
  if (!named.value_or(false)) co_return;
  keep_transcript();
  transcript_->listen([shown = client_.peer.shown()](bool ours, std::string_view line) {
    log::info("{} {}: {}", ours ? '>' : '<', shown, line);
  });
}

trace::Dialogue& Watchers::begin_trace() {
  trace_ = std::make_unique<trace::Dialogue>(*server_.trace, trace::Dialogue::Way::in,
                                             begun_ ? trace::Begin::midway : trace::Begin::start,
                                             events::session_text(client_.session));
  trace_->peer(client_.peer.address, begun_ ? std::string_view(client_.peer.name) : std::string_view());
  return *trace_;
}

void Watchers::connected() {
  if (auto* trace = traced()) trace->mark(fmt::format("connect from [{}]:{}", client_.peer.address, client_.peer.port));
  begun_ = true;
}

void Watchers::client_known() {
  auto* trace = traced();
  if (trace == nullptr) return;
  trace->peer(client_.peer.address, client_.peer.name);
  trace->mark("client is " + client_.peer.shown());
}

void Watchers::handshake() {
  auto* trace = traced();
  if (trace == nullptr) return;
  if (!client_.tls) return trace->mark("TLS handshake failed");
  const SecureClient& tls = *client_.tls;
  trace->mark(fmt::format("{} with cipher {} ({} bits){}", tls.protocol, tls.cipher, tls.used_bits,
                          !tls.certificate ? ""
                          : tls.trusted    ? ", client certificate trusted"
                                           : ", client certificate not trusted"));
}

void Watchers::content(std::string_view queue_id, std::uint64_t octets) {
  auto* trace = traced();
  if (trace == nullptr) return;
  trace->queue_id(queue_id);
  trace->content(octets);
}

void Watchers::disconnected(std::string_view why, std::string_view line) {
  if (auto* trace = traced()) trace->end(why.empty() ? std::string(line) : fmt::format("{}: {}", why, line));
}

void Watchers::limit(std::uint64_t lines, mail::ErrorClasses told) {
  if (!transcript_ || transcript_->lines() <= lines) return;
  tell_postmaster(told, {});
  transcript_->clear();
}

void Watchers::tell_postmaster(mail::ErrorClasses told, std::string_view why) {
  if (!transcript_) return;
  const auto errors = transcript_->errors().among(told);
  if (errors.empty()) return;
  ipc::session_errors::Session session;
  session.role = ipc::session_errors::Role::smtp_server;
  session.peer = client_.peer.shown();
  session.classes = errors.bits();
  session.transcript = transcript_->text();
  session.reason = why;
  server_.tell_postmaster(std::move(session));
}

}  // namespace pen::smtpd
