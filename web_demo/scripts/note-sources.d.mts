import type { Plugin } from 'vite'

export function noteSources(): Plugin
