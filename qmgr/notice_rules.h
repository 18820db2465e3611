#pragma once
/// Which notices the sender of a message is owed: docs/notices.md, "Which notice is sent when".
/// Functions of a message and the settings alone: what is owed is a bit of the recipient's note
/// (Note::owed).
#include <cstdint>
#include <optional>

#include "lib/suite/ipc/bounce.h"
#include "qmgr/message.h"
#include "qmgr/surroundings.h"

namespace pen::qmgr {

/// What a notice to the sender is to say of this result, as bits of Note::owed; 0: nothing.
std::uint8_t owed_for(const ManagerOptions& options, const Active& m, std::uint32_t ordinal,
                      const mail::DeliveryStatus& status);

/// Which report is asked for next; marks the recipients that a warning of the delay is about. nullopt: none.
std::optional<ipc::bounce::Kind> next_report(const ManagerOptions& options, Active& m, WallTime now);

/// The bit of Note::owed that a report of this kind pays.
std::uint8_t bit_of(ipc::bounce::Kind kind);

/// The sender knows now of these recipients.
void mark_told(Active& m, const queue_log::OrdinalSet& ordinals, ipc::bounce::Kind kind);

}  // namespace pen::qmgr
