#pragma once
/// MAIL and RCPT of a job, and what the peer must offer for it (lib/mail/client_commands.h has the grammar).
///
/// Pure functions.
#include <string>

#include "lib/mail/client_commands.h"
#include "lib/suite/ipc/delivery.h"

namespace pen::smtp {

using mail::append_rcpt;
using mail::Offers;
using mail::parse_offers;
using mail::sendable_address;

/// Whether the message needs SMTPUTF8 for its header.
bool header_needs_smtputf8(const ipc::delivery::Job& job);

/// "MAIL FROM:<…> …\r\n" with the parameters that the peer offers, appended to out.
void append_mail(std::string& out, const ipc::delivery::Job& job, const Offers& offers);

}  // namespace pen::smtp
