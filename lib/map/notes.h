#pragma once
/// Reports what of a table's file has no effect, at the moment the file is read: its lines that are passed over,
/// parameters of a database's file that nobody knows. Programs run for months while tables are edited, and their log
/// is where the administrator looks, as with Postfix.
///
/// Use:     on_table_note([](const std::string& note) { log::warning("{}", note); });
///          tell_notes(path, stamp, table.notes());   // a table, when it has read its file
/// Once:    a process may have several tables of one file: the same notes of the same version of it are reported once.
/// Bounds:  those of the notes (passed_over.h); one version of each file is remembered.
/// Thread:  on_table_note() before another thread is started; tell_notes() any, and the function runs in that thread.
#include <functional>
#include <string>
#include <vector>

namespace pen::map {

struct FileStamp;

/// Empty: nothing is reported.
using TellNote = std::function<void(const std::string& note)>;
void on_table_note(TellNote tell);
void tell_notes(const std::string& file, const FileStamp& version, const std::vector<std::string>& notes);

}  // namespace pen::map
