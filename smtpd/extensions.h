#pragma once
/// What EHLO offers a client, and what its MAIL and RCPT may say because of that.
///
/// Use:     talk.write_reply(ehlo_reply(talk, mechanisms));
///          auto mail = mail::parse_mail(args, offered_parameters(talk));
/// Thread:  the loop's.
#include <cstdint>
#include <string>
#include <string_view>

#include "lib/mail/command.h"
#include "smtpd/conversation.h"

namespace pen::smtpd {

/// Without discarded keywords. mechanisms: for AUTH, separated by blanks; empty: it is not offered.
std::string ehlo_reply(const Conversation& talk, std::string_view mechanisms);
mail::CommandOptions offered_parameters(const Conversation& talk);
/// Domains that addresses may have by the settings.
mail::OddDomains odd_domains(const Conversation& talk);
/// Whether `size` is above message_size_limit.
bool beyond_limit(const config::Settings& settings, std::uint64_t size);

}  // namespace pen::smtpd
