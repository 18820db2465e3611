#pragma once
/// debug:type:name: reports each look-up in the inner table.
///
/// Use:     on_debug_look_up([](const std::string& line) { log::info("{}", line); });
/// Lines:   hash:/etc/x lookup: "key" = "value"; "not_found" and "error" stand for no value, as Postfix 3.11 has it.
///          The reason follows an error. Keys and values are shown as they are: they may be secrets.
/// Once:    work that an Asker runs again reports a look-up once.
/// Thread:  on_debug_look_up() before another thread is started; the function runs in the thread that looks up.
/// Source:  Postfix DATABASE_README, debug.
#include <functional>
#include <string>

namespace pen::map {

/// Empty: nothing is reported.
using TellLookUp = std::function<void(const std::string& line)>;
void on_debug_look_up(TellLookUp tell);

}  // namespace pen::map
