"""Writes a block of 1 KiB with the seven quota records of users 0 to 6, for make.sh."""
import struct
import sys


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


block = b""
for user in range(7):
    record = bytearray(136)
    record[0:4] = b"DQ\x01\x01"
    struct.pack_into(">I", record, 4, user)
    record[120:136] = bytes.fromhex("11111111222233334444555555555555")
    struct.pack_into("<I", record, 108, crc32c(record))
    block += record
sys.stdout.buffer.write(block.ljust(1024, b"\0"))
