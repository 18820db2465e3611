#include "pipe/job.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/base/idn/fold.h"
#include "lib/config/expand.h"
#include "lib/mail/address.h"
#include "lib/mail/client_attributes.h"
#include "lib/send/mailbox/content.h"
#include "lib/send/mailbox/macros.h"

namespace pen::pipes {
namespace {

constexpr std::string_view kOfRecipient[] = {"recipient", "original_recipient", "user", "extension", "mailbox",
                                             "domain"};

/// Changes an address as the flags h, u and q ask.
std::string folded(const Options& o, std::string_view address) {
  std::string local(mail::local_part(address));
  std::string domain(mail::domain_part(address));
  if (o.fold_user) local = idn::fold(local);
  if (o.fold_domain) domain = idn::fold(domain);
  if (!o.quote) local = mail::unquote_local(local);
  return mail::has_domain(address) ? local + "@" + domain : local;
}

std::string sender_of(const Options& o, const delivery::Incoming& message) {
  const std::string& sender = message.envelope.sender;
  return sender.empty() ? o.null_sender : sender;
}

mailbox::Values of_message(const Rules& rules, const delivery::Incoming& message) {
  const Options& o = rules.options;
  const mail::Envelope& e = message.envelope;
  const std::string sender = sender_of(o, message);
  return {
      {"sender", o.quote || e.sender.empty() ? sender : mail::to_internal(sender)},
      {"nexthop", o.fold_domain ? idn::fold(message.nexthop) : message.nexthop},
      {"size", std::to_string(message.body.size())},
      {"queue_id", e.queue_id},
      {"envid", e.envid},
      {"client_address", e.client.address},
      {"client_helo", e.client.helo},
      {"client_hostname", e.client.name},
      {"client_port", e.client.port == 0 ? "" : std::to_string(e.client.port)},
      {"client_protocol", std::string(mail::plain_protocol(e.client))},
      {"sasl_method", e.client.sasl_method},
      {"sasl_sender", e.client.sasl_sender},
      {"sasl_username", e.client.sasl_username},
  };
}

void add_recipient(const Rules& rules, const mail::Recipient& recipient, mailbox::Values& values) {
  const Options& o = rules.options;
  std::string mailbox = mail::unquote_local(mail::local_part(recipient.address));
  if (o.fold_user) mailbox = idn::fold(mailbox);
  const auto split = mail::split_extension(mailbox, rules.delimiters);
  std::string domain(mail::domain_part(recipient.address));
  if (o.fold_domain) domain = idn::fold(domain);
  values.emplace_back("recipient", folded(o, recipient.address));
  values.emplace_back("original_recipient", folded(o, recipient.shown_original()));
  values.emplace_back("user", std::string(split.user));
  values.emplace_back("extension", std::string(split.extension));
  values.emplace_back("mailbox", mailbox);
  values.emplace_back("domain", std::move(domain));
}

bool names_recipient(std::string_view word) {
  return std::ranges::any_of(config::names_in(word), [](const config::NameUse& use) {
    return std::ranges::find(kOfRecipient, use.name) != std::end(kOfRecipient);
  });
}

}  // namespace

mailbox::Policy policy_for(const Rules& rules) {
  mailbox::Policy policy;
  policy.service = mailbox::Policy::Service::command;
  policy.account = rules.identity;
  policy.root = rules.options.root;
  policy.directory = rules.options.directory;
  policy.argv = rules.options.argv;
  policy.environment = rules.environment;
  policy.may_begin_with_minus = rules.allow_minus;
  return policy;
}

std::optional<mail::DeliveryStatus> objection(const Rules& rules, const delivery::Incoming& message,
                                              const mail::Recipient& recipient) {
  const auto no = [](std::string dsn, std::string text) {
    return mail::make_status(mail::Action::failed, std::move(dsn), std::move(text));
  };
  const Options& o = rules.options;
  const auto minus = [&](std::string_view address) {
    return !rules.allow_minus && mail::unquote_local(address).starts_with('-');
  };
  if (minus(message.envelope.sender)) return no("5.1.7", "bad sender address syntax");
  if (minus(recipient.address) || minus(recipient.shown_original())) return no("5.1.3", "bad address syntax");
  if (o.size_limit != 0 && message.body.size() > o.size_limit)
    return no("5.2.3", fmt::format("message size {} exceeds size limit {} of service {}", message.body.size(),
                                   o.size_limit, rules.service));
  if (o.delivered_to && mailbox::was_delivered_to(message.header, recipient.address))
    return no("5.4.6", "mail forwarding loop for " + recipient.address);
  return std::nullopt;
}

std::vector<std::string> command_line(const Rules& rules, const delivery::Incoming& message,
                                      const std::vector<mail::Recipient>& recipients) {
  const mailbox::Values common = of_message(rules, message);
  std::vector<std::string> words;
  for (const auto& word : rules.options.argv) {
    if (!names_recipient(word)) {
      words.push_back(mailbox::expand_macros(word, common));
      continue;
    }
    for (const auto& recipient : recipients) {
      mailbox::Values values = common;
      add_recipient(rules, recipient, values);
      words.push_back(mailbox::expand_macros(word, values));
    }
  }
  return words;
}

mailbox::Work work_for(const Rules& rules, const delivery::Incoming& message,
                       const std::vector<mail::Recipient>& recipients, WallTime now) {
  const Options& o = rules.options;
  mailbox::Work work;
  work.message.sender = sender_of(o, message);
  work.message.now = now;
  const auto field = [&](bool wanted, std::string_view name, std::string_view value) {
    if (wanted) work.message.fields += fmt::format("{}: {}\n", name, mailbox::field_safe(value));
  };
  field(o.return_path, "Return-Path", "<" + work.message.sender + ">");
  field(o.original_to, "X-Original-To", recipients.front().shown_original());
  field(o.delivered_to, "Delivered-To", recipients.front().address);
  work.root = o.root;
  mailbox::Command& command = work.command.emplace();
  command.argv = command_line(rules, message, recipients);
  command.environment = rules.environment;
  command.directory = o.directory;
  command.from_line = o.from_line;
  command.delivered = fmt::format("delivered via {} service", rules.service);
  command.form = {
      .quote_from = o.quote_from, .double_dots = o.double_dots, .empty_line_at_end = o.empty_line_at_end, .eol = o.eol};
  return work;
}

}  // namespace pen::pipes
