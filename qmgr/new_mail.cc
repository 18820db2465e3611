#include "qmgr/new_mail.h"

#include <algorithm>

#include "lib/base/metrics/metrics.h"
#include "lib/mail/address.h"
#include "lib/suite/events/emitter.h"

namespace pen::qmgr {

using ipc::enqueue::Outcome;
using queue_log::kJournal;
using queue_log::QueueLogError;

namespace {
constexpr std::size_t kKeptBuffer = 256 * 1024;  // more is given back after a large message

// A day more than future_release_limit can say.
constexpr std::chrono::hours kMostRelease{24 * 366};
constexpr std::size_t kNamedRecipients = 50;  // of a message that was received

void tell_received(const mail::Envelope& envelope, std::string_view in_session) {
  if (!events::wanted() || mail::is_probe(envelope.purpose)) return;
  using enum events::Field;
  const mail::Client& client = envelope.client;
  const bool one = envelope.recipients.size() == 1;
  std::string many;  // the first of them
  for (std::size_t i = 0; !one && i < std::min(envelope.recipients.size(), kNamedRecipients); ++i) {
    const std::string& address = envelope.recipients[i].address;
    if (many.size() + 1 + address.size() > events::kMaxText) break;
    if (i > 0) many += '\n';
    many += address;
  }
  events::tell(events::Event(events::Type::received, events::now())
                   .text(queue_id, envelope.queue_id)
                   .text(message_id, envelope.message_id)
                   .text(client_name, client.name)
                   .text(client_address, client.address)
                   .number(client_port, client.port)
                   .text(helo, client.helo)
                   .text(proto, client.protocol)
                   .text(sasl_method, client.sasl_method)
                   .text(sasl_username, client.sasl_username)
                   .text(sasl_sender, client.sasl_sender)
                   .text(from, envelope.sender)
                   .text(to, one ? std::string_view(envelope.recipients.front().address) : std::string_view())
                   .text(recipients, many)
                   .text(envid, envelope.envid)
                   .number(size, envelope.body.size)
                   .number(nrcpt, envelope.recipients.size())
                   .time(arrival, envelope.arrival)
                   .text(action, envelope.hold ? "hold" : "")
                   .text(tenant, envelope.tenant)
                   .text(priority, envelope.priority == 0 ? std::string() : std::to_string(envelope.priority))
                   .time(release, envelope.release)
                   .text(session, in_session));
}
}  // namespace

std::string NewMail::refusal(const mail::Envelope& envelope, std::uint64_t permit, std::string_view inline_body,
                             std::uint64_t spool_file, const ipc::Carrier& carrier) const {
  if (envelope.queue_id.empty() || envelope.recipients.empty() ||
      envelope.recipients.size() > around_.options.message_recipients)
    return "no queue id, no recipients, or too many";
  if (spool_file == 0 && envelope.body.size != inline_body.size())
    return "the body is not as long as the envelope says";
  if (const auto field = ipc::forbidden_field(envelope, carrier); !field.empty())
    return ipc::refused_field(carrier, field);
  if (const auto way = unnamed_way(envelope, carrier); !way.empty())
    return ipc::refused_field(carrier, way) + ", which no setting names";
  if (!envelope.verp.empty() && envelope.verp.size() != 2) return "delimiters of VERP that are not two";
  if (envelope.tenant.size() > mail::kMaxTenant) return "a tenant whose name is too long";
  if (envelope.signer.size() > mail::kMaxDomain) return "a signer whose name is too long";
  if (envelope.priority < mail::kLeastPriority || envelope.priority > mail::kMostPriority)
    return "a priority that is none";
  if (envelope.release_request.size() > mail::kMaxReleaseRequest) return "a time of release that is too long";
  if (envelope.release > around_.now() + kMostRelease) return "a time of release that is too far";
  // A program that could name any report could make any failure go unreported.
  if (!std::all_of(envelope.discharges.begin(), envelope.discharges.end(),
                   [&](const mail::Discharge& d) { return reports_.may_discharge(d, permit); }))
    return "discharges a report that its sender was not asked for";
  return {};
}

std::string_view NewMail::unnamed_way(const mail::Envelope& envelope, const ipc::Carrier& carrier) const {
  const auto unnamed = [&](const auto& ways, std::string_view way) {
    const auto found = ways.find(carrier.program);
    return found != ways.end() && !way.empty() && !found->second.has(way);
  };
  using enum ipc::EnvelopeField;
  if (unnamed(around_.options.filters, envelope.filter)) return ipc::name_of(filter);
  const bool goes_back = envelope.transport.starts_with("error:");
  if (!goes_back && unnamed(around_.options.transports, envelope.transport)) return ipc::name_of(transport);
  return {};
}

void NewMail::enqueue(mail::Envelope&& envelope, std::uint64_t permit, std::string_view inline_body,
                      std::uint64_t spool_file, std::uint64_t spool_offset, Answer answer, const Origin& origin) {
  const auto refuse = [&](Outcome outcome, std::string why) {
    if (spool_file != 0) around_.ports.release_body(spool_file, envelope.queue_id);
    answer(outcome, std::move(why));
  };
  if (auto why = refusal(envelope, permit, inline_body, spool_file, origin.carrier); !why.empty())
    return refuse(Outcome::refused, std::move(why));
  Beginning beginning = beginning_of(envelope, around_.now());
  if (beginning.remaining.empty()) return refuse(Outcome::refused, "nobody to deliver to");
  to_log(envelope, beginning, inline_body, spool_file, spool_offset, record_);
  // What becomes of the recipients will have to fit beside it.
  if (record_.payload.size() + envelope.recipients.size() * kLeastNote > queue_log::QueueLog::kMaxMessage) {
    record_.payload = {};
    return refuse(Outcome::refused, "the envelope is too large");
  }
  if (const auto layout = layout_of(envelope); layout > PayloadLayout{}.layout && around_.options.note_layout)
    around_.options.note_layout(layout);
  const auto done = around_.log.append(record_);
  if (record_.payload.capacity() > kKeptBuffer) record_.payload = {};
  if (!done) {
    const Error& e = done.error();
    // Behind a writer that has work left it is a matter of milliseconds.
    if (e.is(QueueLogError::no_space))
      return refuse(around_.log.disk_full() ? Outcome::no_space : Outcome::try_later, e.message());
    if (e.is(QueueLogError::too_large)) return refuse(Outcome::refused, e.message());
    around_.ports.fatal(e);
  }
  if (done->another) return refuse(Outcome::refused, "another message has had this id");
  std::unique_ptr<Active> fresh;
  std::vector<mail::Discharge> discharges = envelope.discharges;
  if (done->duplicate) {
    // The first one's body stands.
    if (spool_file != 0) around_.ports.release_body(spool_file, envelope.queue_id);
  } else {
    ++accepted_;
    metrics::queue_messages_accepted.add();
    metrics::queue_recipients_accepted.add(envelope.recipients.size());
    metrics::queue_accepted_bytes.add(envelope.body.size);
    tell_received(envelope, origin.session);
    // What is put on hold takes no room: it leaves at once.
    if ((admission_.may_admit() || envelope.hold) && around_.log.restart().stage() == queue_log::Recovery::done) {
      fresh = std::make_unique<Active>();
      fresh->place = done->place;
      fresh->replacement_bytes = done->bytes;
      fresh->remaining = std::move(beginning.remaining);
      for (auto& n : beginning.notes) fresh->notes[n.ordinal] = std::move(n);
      fresh->set_envelope(std::move(envelope));
      fresh->body = inline_body;
      fresh->spool_file = spool_file;
      fresh->spool_offset = spool_offset;
      active_.promise_place();
    }
  }
  appended(*done, std::move(fresh), std::move(discharges), std::move(answer));
}

void NewMail::take_again(const mail::Envelope& envelope, std::uint64_t permit, std::string_view inline_body,
                         std::uint64_t spool_file, const Answer& answer, const Origin& origin) {
  std::string why = refusal(envelope, permit, inline_body, spool_file, origin.carrier);
  // The first one's body stands.
  if (spool_file != 0) around_.ports.release_body(spool_file, envelope.queue_id);
  if (!why.empty()) return answer(Outcome::refused, std::move(why));
  for (const auto& d : envelope.discharges) reports_.discharge(d);
  answer(Outcome::ok, {});
}

void NewMail::appended(queue_log::QueueLog::Appended appended, std::unique_ptr<Active> fresh,
                       std::vector<mail::Discharge> discharges, Answer answer) {
  acknowledgements_.when_durable(
      appended.ticket, [this, fresh = std::move(fresh), duplicate = appended.duplicate, answer = std::move(answer),
                        discharges = std::move(discharges)] mutable {
        for (const auto& d : discharges) reports_.discharge(d);
        answer(Outcome::ok, {});
        if (fresh)
          durable_.push_back(std::move(fresh));
        else if (!duplicate)
          runners_.wake(kJournal);
      });
}

void NewMail::admit() {
  while (!durable_.empty()) {
    auto m = std::move(durable_.front());
    durable_.pop_front();
    active_.give_back_place();
    const auto begun = admission_.begun(m->id(), around_.log.work().start(m->id(), m->place, m->replacement_bytes));
    if (begun == Admission::Begun::yes) {
      admission_.admit(std::move(m));
      active_.pack();
    } else {
      runners_.put_off(kJournal, begun);
    }
  }
}

}  // namespace pen::qmgr
